// The version of the library that is linked, "0.1.0".
#pragma once

namespace lamina {

const char* Version();

}  // namespace lamina
