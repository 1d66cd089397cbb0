#include "text/format/load.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/format/config.h"
#include "text/format/sentence_piece.h"
#include "text/format/text_file.h"
#include "text/format/tiktoken.h"
#include "text/format/tokenizer_json.h"
#include "text/format/vocab_files.h"

namespace lamina::text {
namespace {

namespace fs = std::filesystem;

// The files that a folder may have its tokenizer in, in order of preference. Files of other names that end in
// .model or .tiktoken come after these.
constexpr const char* kFileNames[] = {"tokenizer.json",          "tokenizer.model", "spiece.model",
                                      "sentencepiece.bpe.model", "vocab.json",      "vocab.txt"};

bool IsFile(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

Result<std::string> FindTokenizerFile(const std::string& folder) {
  for (const char* name : kFileNames) {
    if (IsFile(fs::path(folder) / name)) return JoinPath(folder, name);
  }
  std::vector<std::string> others;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string extension = entry->path().extension().string();
    if ((extension == ".model" || extension == ".tiktoken") && IsFile(entry->path())) {
      others.push_back(entry->path().filename().string());
    }
  }
  if (error) return IoError("{}: {}", folder, error.message());
  if (others.empty()) {
    return NotFoundError("{}: no tokenizer.json, SentencePiece or tiktoken file, vocab.json or vocab.txt",
                         folder);
  }
  return JoinPath(folder, *std::min_element(others.begin(), others.end()));
}

// What the classes of tokenizers put around a text where there is no post-processor: the roles say which
// token.
void AddDefaultProcessor(TokenizerImpl& tokenizer) {
  if (tokenizer.post_processor != nullptr) return;
  const auto spelled = [&](const std::optional<TokenId>& id, bool wanted) {
    std::vector<SpecialToken> tokens;
    bool exists = false;
    if (wanted && id) tokens.emplace_back(*id, std::string(tokenizer.IdToToken(*id, exists)));
    return tokens;
  };
  const TokenRoles& roles = tokenizer.roles;
  tokenizer.post_processor = MakeAffixProcessor(spelled(roles.bos, roles.add_bos.value_or(false)),
                                                spelled(roles.eos, roles.add_eos.value_or(false)));
}

// [CLS] text [SEP], or <s> text </s>.
void AddClsAndSep(TokenizerImpl& tokenizer) {
  const TokenRoles& roles = tokenizer.roles;
  if (!roles.cls || !roles.sep) return;
  bool exists = false;
  tokenizer.post_processor =
      MakeAffixProcessor({{*roles.cls, std::string(tokenizer.IdToToken(*roles.cls, exists))}},
                         {{*roles.sep, std::string(tokenizer.IdToToken(*roles.sep, exists))}});
}

Status ReadVocabJson(const std::string& folder, const TextFile& vocab, const TokenizerConfig& config,
                     TokenizerImpl& tokenizer) {
  LAMINA_ASSIGN_OR_RETURN(const TextFile merges, TextFile::Open(JoinPath(folder, "merges.txt")));
  LAMINA_RETURN_IF_ERROR(ReadVocabAndMerges(vocab.text(), merges.text(), config, tokenizer));
  LAMINA_RETURN_IF_ERROR(ApplyTokenizerConfig(config, tokenizer));
  TokenRoles& roles = tokenizer.roles;
  SetDefaultRole(roles.bos, tokenizer, {"<|endoftext|>", "<s>"});
  SetDefaultRole(roles.eos, tokenizer, {"<|endoftext|>", "</s>"});
  SetDefaultRole(roles.unk, tokenizer, {"<|endoftext|>", "<unk>"});
  if (config.tokenizer_class == "RobertaTokenizer" || config.tokenizer_class == "BartTokenizer") {
    SetDefaultRole(roles.cls, tokenizer, {"<s>"});
    SetDefaultRole(roles.sep, tokenizer, {"</s>"});
    AddClsAndSep(tokenizer);
  }
  return {};
}

Status ReadVocabTxtFile(const TextFile& file, const TokenizerConfig& config, TokenizerImpl& tokenizer) {
  LAMINA_RETURN_IF_ERROR(ReadVocabTxt(file.text(), config, tokenizer));
  LAMINA_RETURN_IF_ERROR(ApplyTokenizerConfig(config, tokenizer));
  TokenRoles& roles = tokenizer.roles;
  SetDefaultRole(roles.unk, tokenizer, {"[UNK]"});
  SetDefaultRole(roles.pad, tokenizer, {"[PAD]"});
  SetDefaultRole(roles.cls, tokenizer, {"[CLS]"});
  SetDefaultRole(roles.sep, tokenizer, {"[SEP]"});
  SetDefaultRole(roles.mask, tokenizer, {"[MASK]"});
  AddClsAndSep(tokenizer);
  return {};
}

Status ReadTiktokenFile(const TextFile& file, const std::string& name, const TokenizerConfig& config,
                        TokenizerImpl& tokenizer) {
  LAMINA_RETURN_IF_ERROR(ReadTiktoken(file.text(), name, tokenizer));
  LAMINA_RETURN_IF_ERROR(ApplyTokenizerConfig(config, tokenizer));
  SetDefaultRole(tokenizer.roles.bos, tokenizer, {"<|begin_of_text|>"});
  SetDefaultRole(tokenizer.roles.eos, tokenizer, {"<|end_of_text|>", "<|im_end|>", "<|endoftext|>"});
  // Llama 3's own class begins every text with its BOS.
  if (!tokenizer.roles.add_bos)
    tokenizer.roles.add_bos = tokenizer.TokenToId("<|begin_of_text|>").has_value();
  return {};
}

// Told by the name, and for a .model file by the content.
Status ReadFile(const std::string& folder, const TextFile& file, const TokenizerConfig& config,
                TokenizerImpl& tokenizer) {
  const fs::path path(file.path());
  const std::string name = path.filename().string();
  const std::string extension = path.extension().string();
  if (extension == ".tiktoken" || (extension == ".model" && LooksLikeTiktoken(file.text()))) {
    return ReadTiktokenFile(file, name, config, tokenizer);
  }
  if (extension == ".model") {
    LAMINA_RETURN_IF_ERROR(ReadSentencePiece(file.text(), config, tokenizer));
    return ApplyTokenizerConfig(config, tokenizer);
  }
  if (name == "vocab.json" || name == "merges.txt") {
    LAMINA_ASSIGN_OR_RETURN(const TextFile vocab, TextFile::Open(JoinPath(folder, "vocab.json")));
    return ReadVocabJson(folder, vocab, config, tokenizer);
  }
  if (extension == ".txt") return ReadVocabTxtFile(file, config, tokenizer);
  LAMINA_RETURN_IF_ERROR(ReadTokenizerJson(file.text(), tokenizer));
  LAMINA_RETURN_IF_ERROR(ApplyTokenizerConfig(config, tokenizer));
  // What surrounds a text is for tokenizer.json to say, be it nothing.
  if (tokenizer.post_processor == nullptr) tokenizer.post_processor = MakeAffixProcessor({}, {});
  return {};
}

Result<std::shared_ptr<const TokenizerImpl>> Complete(std::shared_ptr<TokenizerImpl> tokenizer) {
  AddDefaultProcessor(*tokenizer);
  LAMINA_RETURN_IF_ERROR(tokenizer->added.Prepare(tokenizer->normalizer.get()));
  return std::shared_ptr<const TokenizerImpl>(std::move(tokenizer));
}

}  // namespace

Result<std::shared_ptr<const TokenizerImpl>> LoadTokenizerFromJson(std::string_view json,
                                                                   const std::string& name) {
  auto tokenizer = std::make_shared<TokenizerImpl>();
  if (Status status = ReadTokenizerJson(json, *tokenizer); !status.ok()) return status.WithContext(name);
  return Complete(std::move(tokenizer));
}

Result<std::shared_ptr<const TokenizerImpl>> LoadTokenizer(const std::string& path) {
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  const std::string folder = is_folder ? path : fs::path(path).parent_path().string();
  std::string file_path = path;
  if (is_folder) {
    LAMINA_ASSIGN_OR_RETURN(file_path, FindTokenizerFile(path));
  }
  LAMINA_ASSIGN_OR_RETURN(const TextFile file, TextFile::Open(file_path));
  LAMINA_ASSIGN_OR_RETURN(const TokenizerConfig config, ReadTokenizerConfig(folder));
  auto tokenizer = std::make_shared<TokenizerImpl>();
  if (Status status = ReadFile(folder, file, config, *tokenizer); !status.ok())
    return status.WithContext(file_path);
  return Complete(std::move(tokenizer));
}

}  // namespace lamina::text
