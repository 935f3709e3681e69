// Models in a folder of their own that importing must refuse, with whole messages.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "frontend/model_builder.h"
#include "tcc/frontend/import.h"

namespace tcc {

namespace fs = std::filesystem;
namespace pb = onnx::pb;
using onnx::ModelBuilder;
constexpr int kFloat = pb::TensorProto::FLOAT, kInt64 = pb::TensorProto::INT64;

class ImportErrors : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("tcc_import_errors_" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "model");
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name = "net.onnx") const { return (folder_ / "model" / name).string(); }
  void write(const std::string& name, const std::string& bytes) const { std::ofstream(path(name), std::ios::binary) << bytes; }

  void expect_error(const std::string& name, ExitCode code, std::string text) const {
    Diagnostics diagnostics;
    try {
      import_model(path(name), {}, diagnostics);
      FAIL() << "the model was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code));
      std::string found = error.what();
      const std::string prefix = path("");  // "DIR/" stands for the folder of the model
      for (size_t at = 0; (at = found.find(prefix)) != std::string::npos;) found.replace(at, prefix.size(), "DIR/");
      EXPECT_EQ(found, text);
    }
  }
  void expect_error(const ModelBuilder& model, ExitCode code, const std::string& text) const {
    model.save(path());
    expect_error("net.onnx", code, text);
  }

  /// A file that the system refuses, in its own words: parts of the message are compared.
  void expect_unreadable(const std::vector<std::string>& parts) const {
    Diagnostics diagnostics;
    try {
      import_model(path(), {}, diagnostics);
      FAIL() << "the model was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::environment);
      const std::string text = error.what();
      for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << text;
    }
  }

  fs::path folder_;
};

inline ModelBuilder relu_model() {
  ModelBuilder model;
  model.input("x", kFloat, {2, 3});
  model.node("Relu", {"x"}, {"y"}, {}, "act");
  model.output("y", kFloat);
  return model;
}
}  // namespace tcc
