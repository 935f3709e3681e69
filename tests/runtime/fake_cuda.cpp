#include "runtime/fake_cuda.h"

#include "tcc/support/files.h"

namespace tcc::test {

void FakeCuda::start(const char* kernels) {
  folder_ = new TemporaryFolder;
  const std::string driver = *folder_ / "libcuda.so.1", library = *folder_ / "kernels.so", source = *folder_ / "kernels.c";
  auto built = run_command("cc -std=gnu11 -w -O1 -shared -fPIC -Wl,-soname,libcuda.so.1 '" TCC_FAKE_CUDA "' -o '" + driver + "'");
  ASSERT_EQ(built.exit_code, 0) << built.output;
  driver_ = dlopen(driver.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(driver_, nullptr) << dlerror();
  write_file_atomically(source, std::string_view(kernels));
  built = run_command("cc -std=gnu11 -w -O1 -shared -fPIC '" + source + "' -o '" + library + "'");
  ASSERT_EQ(built.exit_code, 0) << built.output;
  variable<void*>("fake_kernels") = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(variable<void*>("fake_kernels"), nullptr) << dlerror();
}

void FakeCuda::stop() { delete folder_; }

void FakeCuda::SetUp() {
  variable<int>("fake_capability") = 90;
  variable<char[256]>("fake_loaded_images")[0] = '\0';
  counts() = {};
}

void FakeCuda::TearDown() {
  EXPECT_EQ(counts().live_allocations, 0);
  EXPECT_EQ(counts().live_host_allocations, 0);
  EXPECT_EQ(counts().live_bytes, 0);
  EXPECT_EQ(counts().live_modules, 0);
  EXPECT_EQ(counts().live_events, 0);
  EXPECT_EQ(counts().live_graphs, 0);
  EXPECT_EQ(counts().context_depth, 0);
  EXPECT_EQ(counts().primary_retained, 0);
}

std::shared_ptr<const runtime::Library> FakeCuda::link_and_open(const link::LinkInput& input) {
  static int number = 0;
  const std::string path = *folder_ / ("toy" + std::to_string(number++) + ".so");
  link::link_shared_object(input, path);
  return runtime::Library::open(path);
}

}  // namespace tcc::test
