// A loaded library with execution providers.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/dynamic_library.h"
#include "lamina/lamina_ep.h"
#include "provider/provider.h"
#include "providers/plugin/ep_api.h"

namespace lamina::plugin {

// Loads the library at `path` and makes a factory for each provider it offers. Where it offers one, that is
// called `registered_name`; of several each keeps its own name, and an empty `registered_name` keeps it too.
//
// Errors name the library: NOT_FOUND, IO where it cannot be loaded; UNSUPPORTED where it is no provider
// library, or one for a newer interface; INTERNAL where its tables are broken; INVALID_ARGUMENT for a name
// that rules and flags could not say. Nothing of the library stays loaded then.
Result<std::vector<std::unique_ptr<ProviderFactory>>> LoadProviderLibrary(const std::string& registered_name,
                                                                          const std::string& path);

// The same for functions that are linked to the program.
Result<std::vector<std::unique_ptr<ProviderFactory>>> MakePluginFactories(const std::string& registered_name,
                                                                          LaminaCreateEpFactoriesFunc create,
                                                                          LaminaReleaseEpFactoryFunc release);

// OK where `name` can be a provider's: lower-case letters, digits and `_`, beginning with a letter, and no
// designator of a kind of device.
Status CheckProviderName(std::string_view name);

}  // namespace lamina::plugin
