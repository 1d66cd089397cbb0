#include "lamina/version.h"

namespace lamina {

const char* Version() { return LAMINA_VERSION; }

}  // namespace lamina
