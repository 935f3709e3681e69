#include "cli/models.h"

#include <algorithm>
#include <filesystem>

#include "tcc/support/npy.h"

namespace tcc::test {

namespace fs = std::filesystem;

std::vector<ModelFile> model_files() {
  std::vector<ModelFile> files;
  for (const auto& folder : fs::directory_iterator(TCC_MODELS_DIR)) {
    const std::string name = folder.path().filename().string();
    if (!folder.is_directory()) continue;
    for (const auto& entry : fs::directory_iterator(folder.path())) {
      const std::string extension = entry.path().extension().string();
      if (extension == ".onnx" || extension == ".pt2")
        files.push_back({name + "/" + entry.path().filename().string(), entry.path().string()});
    }
  }
  std::sort(files.begin(), files.end(), [](const ModelFile& a, const ModelFile& b) { return a.name < b.name; });
  return files;
}

Reference read_reference(const ModelFile& file) {
  const auto arrays = read_npz((fs::path(file.path).parent_path() / "ref.npz").string());
  Reference reference;
  for (int i = 0; arrays.contains("in" + std::to_string(i)); ++i) reference.inputs.push_back(arrays.at("in" + std::to_string(i)));
  reference.output = arrays.at("out0_f64");
  return reference;
}

}  // namespace tcc::test
