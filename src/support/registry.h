// What has to be gone when the process ends. Changed only inside Uninterrupted sections, which is why a signal handler may read it: a handler
// never runs its removal while a section is open.
#pragma once

#include <string>

namespace tcc::registry {

/// Call inside Uninterrupted.
void add_file(const std::string& path);
void add_folder(const std::string& path);
void remove(const std::string& path);

}  // namespace tcc::registry
