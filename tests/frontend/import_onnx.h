// Tests that import small ONNX models built in them.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "frontend/model_builder.h"
#include "tcc/frontend/import.h"
#include "tcc/rules/verify.h"

namespace tcc {

namespace pb = onnx::pb;
using onnx::ModelBuilder;
constexpr int kFloat = pb::TensorProto::FLOAT, kInt64 = pb::TensorProto::INT64, kBool = pb::TensorProto::BOOL;

class ImportOnnx : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("tcc_import_onnx_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Graph> import(const ModelBuilder& model, const ImportOptions& options = {}) const {
    const std::string path = (folder_ / "net.onnx").string();
    model.save(path);
    Diagnostics diagnostics;
    auto graph = import_model(path, options, diagnostics);
    EXPECT_EQ(verify(*graph, GraphStage::imported), std::vector<std::string>());
    return graph;
  }
  /// The graph without weights' declarations, locations and padding.
  std::string text(const ModelBuilder& model, const ImportOptions& options = {}) const {
    std::string result, line;
    for (const char c : print(*import(model, options), {.locations = false})) {
      line += c;
      if (c != '\n') continue;
      if (!line.starts_with("weight ") && !line.starts_with("  weight ") && line != "\n") result += line;
      line.clear();
    }
    return result;
  }

  std::filesystem::path folder_;
};

}  // namespace tcc
