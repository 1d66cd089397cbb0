#include "text/json_reader.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "text/json_number.h"

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

TEST(JsonNumber, ReadsWhatJsonAllows) {
  const auto value = [](std::string_view text) {
    const std::optional<JsonNumber> number = ParseJsonNumber(text);
    return number ? number->value : std::nan("");
  };
  EXPECT_EQ(value("0"), 0.0);
  EXPECT_TRUE(std::signbit(value("-0")));
  EXPECT_EQ(value("-17"), -17.0);
  EXPECT_EQ(value("2.5"), 2.5);
  EXPECT_EQ(value("1e3"), 1000.0);
  EXPECT_EQ(value("25E-1"), 2.5);
  EXPECT_EQ(value("1e+22"), 1e22);
  EXPECT_EQ(value("1e300"), 1e300);
  EXPECT_EQ(value("18446744073709551615"), 18446744073709551615.0);
  EXPECT_EQ(value("184467440737095516160000"), 184467440737095516160000.0);
  EXPECT_EQ(value("0.0000000000000000000001"), 1e-22);
  EXPECT_EQ(value("1e-400"), 0.0);
  EXPECT_EQ(value("123e-320"), 1.23e-318);
  EXPECT_EQ(value("0e999999999999"), 0.0);
  EXPECT_EQ(ParseJsonNumber("-1.5e1,")->length, 6u);
  for (const char* text :
       {"", "-", ".5", "1.", "1.e3", "1e", "1e+", "01", "-00", "+1", "1e309", "1e999999999999", "x"}) {
    EXPECT_FALSE(ParseJsonNumber(text)) << text;
  }
}

TEST(JsonNumber, RoundsAsTheReferenceDoes) {
  // The nearest doubles are one unit in the last place further from zero.
  EXPECT_EQ(ParseJsonNumber("-12.044651985168457")->value, -12.044651985168455);
  EXPECT_EQ(ParseJsonNumber("-12.130167007446289")->value, -12.130167007446287);
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
