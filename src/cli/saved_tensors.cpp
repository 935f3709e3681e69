#include "cli/saved_tensors.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "tcc/driver/array_files.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/npy.h"

namespace tcc::cli {
namespace {

void make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) == 0 || errno == EEXIST) return;
  throw Error(ExitCode::environment, "unwritable-file", path, std::string("the folder can't be made: ") + std::strerror(errno));
}

}  // namespace

SavedTensors::SavedTensors(const std::string& path) : path_(path), is_archive_(path.ends_with(".npz")) {
  if (!path_.empty() && !is_archive_) make_folder(path_);
}

void SavedTensors::check(const std::string& name, DType dtype) const {
  if (!is_archive_ || npy_has(dtype)) return;
  throw Error(ExitCode::usage, "invalid-argument", path_, "`" + name + "` is " + std::string(name_of(dtype)) + ", which .npz does not have",
              "--save FOLDER writes it as a TensorProto (.pb)");
}

std::string SavedTensors::add(const std::string& name, const std::string& file, const Tensor& tensor) {
  if (path_.empty()) return "";
  if (!is_archive_) return driver::write_tensor_file(path_ + "/" + file, tensor, name);
  arrays_.emplace(name, tensor);
  return path_;
}

void SavedTensors::finish() const {
  if (is_archive_) write_npz(path_, arrays_);
}

}  // namespace tcc::cli
