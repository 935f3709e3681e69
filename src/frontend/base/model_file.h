// A model in memory.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tcc {

struct ModelFile {
  std::string name;                   ///< as messages name it
  std::vector<std::string> folders;   ///< where the files that it names are looked for, in this order (beside_files.h)
  std::span<const std::byte> bytes;   ///< not empty
  std::shared_ptr<const void> owner;  ///< keeps the bytes as long as weights point into them

  std::string_view text() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
};

/// Maps a file; "-" is standard input. Error: environment for a file that can't be read, model for an empty one.
ModelFile open_model_file(const std::string& path);

}  // namespace tcc
