// Models whose weights are in other files that are not there, not theirs, or not as long as they should be.
#include <sys/stat.h>

#include "import_errors.h"

namespace tcc {
namespace {

TEST_F(ImportErrors, ExternalDataOutsideTheFolder) {
  std::ofstream(folder_ / "secret.bin") << std::string(8, 's');
  fs::create_symlink(folder_ / "secret.bin", path("link.bin"));
  ModelBuilder model = relu_model();
  model.external("a", {2}, "../secret.bin");
  model.external("b", {2}, "/etc/passwd");
  model.external("c", {2}, "link.bin");
  model.external("d", {2}, "");
  model.external("e", {2}, std::string("link.bin\0x", 10));
  expect_error(
      model, ExitCode::model,
      "DIR/net.onnx:a: error: external data: `../secret.bin` leaves the folder of the model [external-data]\n"
      "DIR/net.onnx:b: error: external data: `/etc/passwd` is an absolute path, one relative to the model was expected [external-data]\n"
      "DIR/net.onnx:c: error: external data: `link.bin` is a symbolic link that leaves the folder of the model [external-data]\n"
      "DIR/net.onnx:d: error: external data: `location` is missing [external-data]\n"
      "DIR/net.onnx:e: error: external data: `link.bin` goes on after a NUL, which no file name has [external-data]");
}

// A hub's cache: the names are links, the files lie in another folder.
TEST_F(ImportErrors, ExternalDataOfALinkedModel) {
  fs::create_directory(folder_ / "blobs");
  fs::create_directory(folder_ / "elsewhere");
  ModelBuilder model = relu_model();
  model.external("w", {2}, "net.data");
  model.save((folder_ / "blobs/1a").string());
  std::ofstream(folder_ / "blobs/2b") << std::string(8, 'w');
  std::ofstream(folder_ / "elsewhere/2b") << std::string(8, 'w');
  const auto import = [&] {
    Diagnostics diagnostics;
    std::vector<std::string> files;
    ImportOptions options;
    options.files_read = &files;
    import_model(path(), options, diagnostics);
    return files;
  };
  fs::create_symlink("../blobs/1a", path());
  fs::create_symlink("../blobs/2b", path("net.data"));
  EXPECT_EQ(import(), std::vector<std::string>{path("net.data")});
  // Only beside the real file.
  fs::remove(path("net.data"));
  fs::create_symlink("2b", folder_ / "blobs/net.data");
  EXPECT_EQ(import(), std::vector<std::string>{fs::canonical(folder_ / "blobs").string() + "/net.data"});
  // A link that leaves both folders.
  fs::remove(folder_ / "blobs/net.data");
  fs::create_symlink("../elsewhere/2b", path("net.data"));
  expect_error("net.onnx", ExitCode::model,
               "DIR/net.onnx:w: error: external data: `net.data` is a symbolic link that leaves the folder of the model [external-data]");
}

TEST_F(ImportErrors, ExternalDataThatIsNoFile) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  ModelBuilder model = relu_model();
  model.external("w", {2}, "pipe");
  expect_error(model, ExitCode::environment,
               "DIR/pipe: error: file can't be read: is a pipe, a regular file was expected [unreadable-file]\n"
               "DIR/net.onnx:w: note: the bytes of this tensor are expected there\n"
               "DIR/net.onnx:w: help: keep the files that were exported with the model beside it");
}

TEST_F(ImportErrors, ExternalDataOfAnotherSize) {
  write("w.bin", std::string(8, '\0'));
  ModelBuilder model = relu_model();
  model.external("a", {3}, "w.bin");
  model.external("b", {1}, "w.bin", "6");
  model.external("c", {2}, "w.bin", "0", "4");
  model.external("d", {2}, "w.bin", "x");
  expect_error(model, ExitCode::model,
               "DIR/net.onnx:a: error: external data: `w.bin` has 8 bytes, 12 at offset 0 were expected [malformed-file]\n"
               "DIR/net.onnx:b: error: external data: `w.bin` has 8 bytes, 4 at offset 6 were expected [malformed-file]\n"
               "DIR/net.onnx:c: error: external data: `length` is 4, its type and shape need 8 bytes [malformed-file]\n"
               "DIR/net.onnx:d: error: external data: `offset` is `x`, a decimal number was expected [external-data]");
}

TEST_F(ImportErrors, ExternalDataMissing) {
  ModelBuilder model = relu_model();
  model.external("w", {2}, "weights/w.bin");
  model.save(path());
  expect_unreadable({"weights/w.bin", "net.onnx:w: note: the bytes of this tensor are expected there",
                     "net.onnx:w: help: keep the files that were exported with the model beside it"});
}
}  // namespace
}  // namespace tcc
