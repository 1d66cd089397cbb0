#include "cli/tokenize.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <iostream>
#include <iterator>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/log.h"
#include "generate/model_folder.h"
#include "text/tokenizer.h"

namespace lamina::cli {
namespace {

// A model may be called as for the other commands: by a name below models/, or by its .onnx file.
Result<std::string> FindTokenizer(const std::string& model) {
  LAMINA_ASSIGN_OR_RETURN(std::string path, FindModel(model));
  if (!path.ends_with(".onnx")) return path;
  LAMINA_ASSIGN_OR_RETURN(const ModelFolder folder, ModelFolder::Open(path));
  return folder.text_folder;
}

std::string ReadInput(const TokenizeFlags& flags, std::istream& input) {
  if (flags.words.empty()) return {std::istreambuf_iterator<char>(input), std::istreambuf_iterator<char>()};
  std::string text;
  for (const std::string& word : flags.words) {
    if (!text.empty()) text += ' ';
    text += word;
  }
  return text;
}

// Of the object that --json prints.
Result<std::vector<TokenId>> ParseIdsOfObject(std::string_view text) {
  const nlohmann::json object = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (object.is_discarded()) return InvalidArgumentError("the ids to decode are no valid JSON");
  const auto found = object.find("ids");
  std::vector<TokenId> ids;
  if (found == object.end() || !found->is_array()) {
    return InvalidArgumentError("the JSON object to decode has no array \"ids\"");
  }
  for (const nlohmann::json& id : *found) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > std::numeric_limits<TokenId>::max()) {
      return InvalidArgumentError("'{}' is no token id", id.dump());
    }
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

// Ids in decimal, separated by white space, commas or the brackets of a JSON array; or what --json prints.
Result<std::vector<TokenId>> ParseIds(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') return ParseIdsOfObject(text);
  std::vector<TokenId> ids;
  constexpr std::string_view kSeparators = " \t\r\n,[]";
  while (true) {
    const size_t begin = text.find_first_not_of(kSeparators);
    if (begin == std::string_view::npos) return ids;
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, text.find_first_of(kSeparators));
    TokenId id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size() || id < 0) {
      return InvalidArgumentError("'{}' is no token id", word);
    }
    ids.push_back(id);
    text.remove_prefix(word.size());
  }
}

// A token's spelling on one line of a terminal.
std::string Shown(const std::string& piece) {
  const std::string quoted = nlohmann::json(piece).dump();
  return quoted.substr(1, quoted.size() - 2);
}

Status PrintText(const Tokenizer& tokenizer, const TokenizeFlags& flags, const std::string& input,
                 Output& out) {
  LAMINA_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, ParseIds(input));
  for (TokenId id : ids) {
    if (!tokenizer.IdToToken(id)) LogWarning("the tokenizer has no token {}", id);
  }
  LAMINA_ASSIGN_OR_RETURN(const std::string text,
                          tokenizer.Decode(ids, {.skip_special_tokens = flags.skip_special}));
  if (flags.json) {
    out.Print("{}\n", nlohmann::json{{"text", text}}.dump());
  } else {
    out.Print("{}\n", text);
  }
  return {};
}

Status PrintTokens(const Tokenizer& tokenizer, const TokenizeFlags& flags, const std::string& input,
                   Output& out) {
  const EncodeOptions options{.add_special_tokens = flags.special, .truncate_and_pad = true};
  LAMINA_ASSIGN_OR_RETURN(const Encoding encoding, tokenizer.EncodeWithDetails(input, options));
  if (tokenizer.truncation() && encoding.ids.size() >= tokenizer.truncation()->max_tokens) {
    LAMINA_ASSIGN_OR_RETURN(const size_t all,
                            tokenizer.CountTokens(input, {.add_special_tokens = flags.special}));
    if (all > encoding.ids.size()) {
      LogWarning("tokenizer.json asks for at most {} tokens: {} of {} are cut off",
                 tokenizer.truncation()->max_tokens, all - encoding.ids.size(), all);
    }
  }
  if (flags.json) {
    out.Print("{{\"ids\": {}, \"pieces\": {}, \"count\": {}}}\n", nlohmann::json(encoding.ids).dump(),
              nlohmann::json(encoding.pieces).dump(), encoding.ids.size());
    return {};
  }
  for (size_t i = 0; i < encoding.ids.size(); ++i)
    out.Print("{:>8}  {}\n", encoding.ids[i], Shown(encoding.pieces[i]));
  out.Print("{} tokens, {} bytes\n", encoding.ids.size(), input.size());
  return {};
}

}  // namespace

Result<ExitCode> Tokenize(const TokenizeFlags& flags, std::istream& input, Output& out) {
  LAMINA_ASSIGN_OR_RETURN(const std::string path, FindTokenizer(flags.model));
  LAMINA_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::Load(path));
  const std::string text = ReadInput(flags, input);
  LAMINA_RETURN_IF_ERROR(flags.decode ? PrintText(tokenizer, flags, text, out)
                                      : PrintTokens(tokenizer, flags, text, out));
  LAMINA_RETURN_IF_ERROR(out.Flush());
  return ExitCode::kSuccess;
}

void RegisterTokenizeCommand(Commands& commands) {
  auto flags = std::make_shared<TokenizeFlags>();
  CLI::App& app = commands.Add("tokenize", "Turn text into token ids, or ids into text",
                               [flags](Output& out) { return Tokenize(*flags, std::cin, out); });
  app.add_option("MODEL", flags->model, "Model folder or tokenizer file")->required();
  app.add_option("TEXT", flags->words,
                 "Text, or token ids with --decode; standard input where none is given");
  app.add_flag("--json", flags->json,
               "Print one JSON object: ids, pieces and count, or the text with --decode");
  app.add_flag("--special", flags->special, "Add the special tokens that belong around a text");
  app.add_flag("--decode", flags->decode, "Go back from token ids, or what --json printed, to text");
  app.add_flag("--skip-special", flags->skip_special, "With --decode: leave special tokens out");
}

}  // namespace lamina::cli
