#include "tcc/support/beside.h"

#include <filesystem>

namespace tcc {

namespace {

namespace fs = std::filesystem;

bool is_below(const fs::path& real, const std::string& folder) {
  std::error_code error;
  const fs::path inside = real.lexically_relative(fs::weakly_canonical(folder, error));
  return !inside.empty() && *inside.begin() != "..";
}

}  // namespace

BesideFile find_beside(const std::string& location, const std::vector<std::string>& folders) {
  if (const size_t nul = location.find('\0'); nul != std::string::npos)
    return {"", "`" + location.substr(0, nul) + "` goes on after a NUL, which no file name has"};
  const fs::path relative(location);
  if (relative.is_absolute()) return {"", "`" + location + "` is an absolute path, one relative to the model was expected"};
  for (const fs::path& part : relative) {
    if (part == "..") return {"", "`" + location + "` leaves the folder of the model"};
  }
  // The first that is there; when none is, the message names the place beside the model.
  std::error_code error;
  fs::path full = fs::path(folders.front()) / relative;
  for (size_t i = 1; i < folders.size() && !fs::exists(full, error); ++i) {
    if (const fs::path other = fs::path(folders[i]) / relative; fs::exists(other, error)) full = other;
  }
  const fs::path real = fs::weakly_canonical(full, error);
  for (const std::string& folder : folders) {
    if (is_below(real, folder)) return {full.string(), ""};
  }
  return {"", "`" + location + "` is a symbolic link that leaves the folder of the model"};
}

}  // namespace tcc
