#include "text/json_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lamina::text {
namespace {

Status ReadStrings(std::string_view json, std::vector<std::string>& strings) {
  JsonReader reader(json);
  LAMINA_RETURN_IF_ERROR(reader.EnterArray());
  while (true) {
    LAMINA_ASSIGN_OR_RETURN(const bool more, reader.NextElement());
    if (!more) return reader.ExpectEnd();
    std::string_view value;
    LAMINA_RETURN_IF_ERROR(reader.ReadString(value));
    strings.emplace_back(value);
  }
}

TEST(JsonReader, ReadsStringsWithEscapes) {
  std::vector<std::string> strings;
  ASSERT_TRUE(ReadStrings(R"( ["plain", "\"\\\/\b\f\n\r\t", "\u00e9\uD83D\uDE00\u4f60" ] )", strings).ok());
  EXPECT_EQ(strings, (std::vector<std::string>{"plain", "\"\\/\b\f\n\r\t", "\u00e9\U0001F600\u4f60"}));
}

TEST(JsonReader, RefusesMalformedStrings) {
  for (const char* json :
       {R"(["\x"])", R"(["\ud800"])", R"(["\ud800\u0041"])", R"(["\u12"])", R"(["\u-123"])", "[\"a\nb\"]",
        R"(["a)", R"(["a\)", R"(["a" "b"])", R"(["a",)", R"([,])", "[1]", R"(["a"] x)"}) {
    std::vector<std::string> strings;
    EXPECT_EQ(ReadStrings(json, strings).code(), StatusCode::kInvalidModel) << json;
  }
}

TEST(JsonReader, ReadsObjectsAndNumbers) {
  JsonReader reader(R"({"a": 12, "b": -1.5e1, "c": {"d": [1, "]}"]}, "e": null})");
  std::string_view key;
  uint64_t whole = 0;
  double number = 0;
  ASSERT_TRUE(reader.EnterObject().ok());
  ASSERT_TRUE(*reader.NextKey(key));
  ASSERT_TRUE(reader.ReadUnsigned(whole).ok());
  EXPECT_EQ(whole, 12u);
  ASSERT_TRUE(*reader.NextKey(key));
  ASSERT_TRUE(reader.ReadDouble(number).ok());
  EXPECT_EQ(number, -15.0);
  ASSERT_TRUE(*reader.NextKey(key));
  EXPECT_EQ(*reader.RawValue(), R"({"d": [1, "]}"]})");
  ASSERT_TRUE(*reader.NextKey(key));
  EXPECT_EQ(key, "e");
  EXPECT_EQ(*reader.RawValue(), "null");
  EXPECT_FALSE(*reader.NextKey(key));
  EXPECT_TRUE(reader.ExpectEnd().ok());
}

TEST(JsonReader, RefusesNumbersOfTheWrongKind) {
  for (const char* json : {"-1", "1.5", "1e3", "99999999999999999999999", "x", ""}) {
    uint64_t value = 0;
    EXPECT_FALSE(JsonReader(json).ReadUnsigned(value).ok()) << json;
  }
}

TEST(JsonReader, LimitsNesting) {
  const std::string deep(100'000, '[');
  EXPECT_EQ(JsonReader(deep).RawValue().status().code(), StatusCode::kInvalidModel);
  JsonReader reader(deep);
  Status status;
  while (status.ok()) status = reader.EnterArray();
  EXPECT_EQ(status.code(), StatusCode::kInvalidModel);
}

}  // namespace
}  // namespace lamina::text
