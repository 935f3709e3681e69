// Files that another file names: they lie beside it, never elsewhere.
#pragma once

#include <string>
#include <vector>

namespace tcc {

struct BesideFile {
  std::string path;   ///< that can be opened
  std::string fault;  ///< not empty: why it is refused, "`../x` leaves the folder of the model"
};

/// The file that a model calls `location`. `folders`: where the model lies; of a model that is a link, where the link lies and then where the file does.
/// A model comes from strangers; if it could name /etc/shadow or ../../key, compiling it would copy that file into a library that is then given away. So
/// the location must be relative, without `..`, and after all symbolic links are followed it must still be below one of the folders. Two folders, because
/// in a hub's cache model and data are links with their own names into one folder of files named by hash.
BesideFile find_beside(const std::string& location, const std::vector<std::string>& folders);

}  // namespace tcc
