// Loading through ordinary host memory: a piece is read, then copied. For loads too small to pin memory for,
// and where none can be pinned.
#pragma once

#include "lamina/status.h"
#include "provider/data_transfer.h"
#include "weights/load/block_reader.h"
#include "weights/load/load_job.h"

namespace lamina {

// Takes part in the job until nothing is left or it has stopped; run by each reader's thread. Its copies are
// done on return.
Status RunPageableLoad(LoadJob& job, DataTransfer& transfer, BlockReader& reader);

}  // namespace lamina
