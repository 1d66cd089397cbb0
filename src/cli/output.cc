#include "cli/output.h"

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/os.h"

namespace lamina::cli {

void Output::Write(std::string_view text) {
  if (error_number_ != 0) return;
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) RememberError();
}

Status Output::Flush() {
  if (error_number_ == 0 && std::fflush(file_) != 0) RememberError();
  if (error_number_ == 0) return Status();
  return IoError("cannot write standard output: {}", std::strerror(error_number_));
}

bool Output::IsTerminal() const { return lamina::IsTerminal(fileno(file_)); }

void Output::RememberError() {
  error_number_ = errno != 0 ? errno : EIO;
  reader_gone_ = error_number_ == EPIPE;
}

}  // namespace lamina::cli
