// The path rules of external data (FileSystem::OpenBeneath) for the operating system's files.
#pragma once

#include <string>

#include "base/file.h"
#include "base/unique_fd.h"
#include "lamina/status.h"

namespace lamina {

// A descriptor of what `location` leads to inside where.folder or where.real_folder; of any kind, the caller
// checks that it is a regular file. Opening never blocks.
Result<UniqueFd> OpenDescriptorBeneath(const FileSystem::Beneath& where, const std::string& location);

// The same without the openat2 system call, which Linux has since 5.6 and some containers forbid. For tests.
Result<UniqueFd> OpenDescriptorBeneathByWalking(const FileSystem::Beneath& where,
                                                const std::string& location);

}  // namespace lamina
