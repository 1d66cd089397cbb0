#include "provider/stream.h"

#include "base/error.h"

namespace lamina {

Status Stream::BeginRecording() { return UnsupportedError("the provider does not record work"); }

Result<std::unique_ptr<RecordedWork>> Stream::EndRecording() {
  return UnsupportedError("the provider does not record work");
}

}  // namespace lamina
