#include "text/reference_comparison.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "text/utf8.h"

namespace lamina::testing {
namespace {

constexpr int kMaxReported = 10;

std::string Ascii(const nlohmann::json& json) {
  return json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

// Character positions of byte positions, for comparing with offsets that count characters.
std::vector<size_t> CharPositions(const std::string& text) {
  std::vector<size_t> positions(text.size() + 1);
  size_t chars = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!text::IsUtf8Continuation(text[i])) ++chars;
    positions[i] = chars - 1;
  }
  positions[text.size()] = chars;
  return positions;
}

}  // namespace

std::string StreamAll(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool skip_special_tokens) {
  TokenStream stream(tokenizer, {.skip_special_tokens = skip_special_tokens});
  std::string text;
  const auto append = [&](const Result<std::string>& piece) {
    ASSERT_TRUE(piece.ok()) << piece.status().ToString();
    EXPECT_EQ(text::ValidUtf8Prefix(*piece), piece->size());
    text += *piece;
  };
  for (TokenId id : ids) append(stream.Push(id));
  append(stream.Finish());
  return text;
}

void ReferenceComparison::CompareLine(const nlohmann::json& line) {
  ++lines_;
  if (line.contains("text")) {
    CompareText(line);
  } else {
    CompareDecoding(line, line["decode_ids"].get<std::vector<TokenId>>());
  }
}

void ReferenceComparison::Expect(const char* what, const nlohmann::json& line, const nlohmann::json& found,
                                 const nlohmann::json& expected) {
  if (found == expected || ++differences_ > kMaxReported) return;
  ADD_FAILURE() << name_ << ": " << what << " of "
                << Ascii(line.contains("text") ? line["text"] : line["decode_ids"]) << "\n  found    "
                << Ascii(found) << "\n  expected " << Ascii(expected);
}

void ReferenceComparison::CompareText(const nlohmann::json& line) {
  const auto text = line["text"].get<std::string>();
  const auto ids = tokenizer_.Encode(text);
  const auto detailed = tokenizer_.EncodeWithDetails(text);
  const auto special = tokenizer_.EncodeWithDetails(text, {.add_special_tokens = true});
  if (!ids.ok() || !detailed.ok() || !special.ok()) {
    Expect("status", line, (ids.ok() ? special : Result<Encoding>(ids.status())).status().ToString(), "OK");
    return;
  }
  Expect("ids", line, *ids, line["ids"]);
  Expect("ids with details", line, detailed->ids, line["ids"]);
  Expect("ids with special tokens", line, special->ids, line["ids_special"]);
  Expect("tokens", line, detailed->pieces, line["tokens"]);
  const std::vector<size_t> chars = CharPositions(text);
  nlohmann::json offsets = nlohmann::json::array();
  for (const Encoding::Span& span : special->spans) offsets.push_back({chars[span.begin], chars[span.end]});
  Expect("offsets", line, offsets, line["offsets"]);
  CompareDecoding(line, line["ids_special"].get<std::vector<TokenId>>());
}

void ReferenceComparison::CompareDecoding(const nlohmann::json& line, const std::vector<TokenId>& ids) {
  for (const bool skip : {false, true}) {
    const char* key = skip ? "decoded_skip" : "decoded";
    Expect(key, line, tokenizer_.Decode(ids, {.skip_special_tokens = skip}).value(), line[key]);
    Expect("stream", line, StreamAll(tokenizer_, ids, skip), line[key]);
  }
}

}  // namespace lamina::testing
