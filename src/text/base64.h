// Base64 as RFC 4648 has it, with padding.
#pragma once

#include <string>
#include <string_view>

namespace lamina::text {

// Puts the decoded bytes in `out`; false where `encoded` is not base64.
bool DecodeBase64(std::string_view encoded, std::string& out);

}  // namespace lamina::text
