// Stages that turn bytes into text.
#pragma once

#include <string>
#include <string_view>

#include "text/decoder/decode_stage.h"

namespace lamina::text {

// ByteLevel: letters of bytes (byte_level.h) become bytes and these one token. Invalid UTF-8 becomes U+FFFD;
// an unfinished character waits for the rest of it.
class ByteLevelStage : public WholeTokenStage {
 public:
  using WholeTokenStage::WholeTokenStage;
  Status Finish() override;

 protected:
  Status Token(std::string_view token) override;

 private:
  // Passes on what is settled; all of it when nothing follows.
  Status Flush(bool at_end);
  std::string bytes_;
  bool begun_ = false;
};

// ByteFallback: runs of <0xNN> tokens become one token if their bytes are valid UTF-8, else each becomes
// U+FFFD. A run is judged as a whole and waits for its end.
class ByteFallbackStage : public WholeTokenStage {
 public:
  using WholeTokenStage::WholeTokenStage;
  Status Finish() override;

 protected:
  Status Token(std::string_view token) override;

 private:
  Status FlushRun();
  std::string run_;
};

// The byte that a token "<0x0A>" stands for; -1 for any other token.
int ByteOfToken(std::string_view token);

}  // namespace lamina::text
