// `lamina tokenize`: shows what a model's tokenizer makes of a text, or goes back from ids to text.
#pragma once

#include <istream>
#include <string>
#include <vector>

#include "cli/command.h"

namespace lamina::cli {

struct TokenizeFlags {
  std::string model;               // folder or tokenizer file
  std::vector<std::string> words;  // the text, joined by spaces; none: `input` is read to its end, as it is
  bool json = false;               // one line {"ids", "pieces", "count"}; with `decode` {"text"}
  bool special = false;            // add what the tokenizer puts around a text
  bool decode = false;             // the text is token ids
  bool skip_special = false;       // with `decode`: leave special tokens out
};

// Truncation and padding that tokenizer.json asks for are applied, with a warning where tokens are cut off.
Result<ExitCode> Tokenize(const TokenizeFlags& flags, std::istream& input, Output& out);

void RegisterTokenizeCommand(Commands& commands);

}  // namespace lamina::cli
