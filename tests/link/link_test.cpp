// What the linker promises: the same bytes for the same input, faults named, nothing left half-written.
#include "tcc/link/link.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/toy_trainer.h"
#include "tcc/runtime/library.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/files.h"

namespace tcc::link {
namespace {

using test::run_command;
using test::TemporaryFolder;
using test::toy_model;

std::string message_of(const LinkInput& input, const std::string& path, ExitCode code) {
  try {
    link_shared_object(input, path);
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    return error.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Link, SameInputSameBytes) {
  TemporaryFolder folder;
  const LinkInput input = toy_model(folder, true);
  link_shared_object(input, folder / "a.so");
  ASSERT_EQ(mkdir((folder / "elsewhere").c_str(), 0777), 0);
  link_shared_object(input, folder / "elsewhere/another name.so");
  EXPECT_EQ(MappedFile::open(folder / "a.so")->text(), MappedFile::open(folder / "elsewhere/another name.so")->text());
  EXPECT_EQ(folder.files(), (std::vector<std::string>{"a.so", "elsewhere"}));
  EXPECT_FALSE(contains(std::string(MappedFile::open(folder / "a.so")->text()), folder.path()));
}

TEST(Link, OutputThatCannotBeWritten) {
  TemporaryFolder folder;
  const LinkInput input = toy_model(folder);
  EXPECT_TRUE(contains(message_of(input, folder.path(), ExitCode::environment), "is a directory"));
  EXPECT_TRUE(contains(message_of(input, folder / "no/such/folder.so", ExitCode::environment), "o such file"));
  EXPECT_TRUE(contains(message_of(input, "/proc/model.so", ExitCode::environment), "can't be written"));
  // A device is written in place, not replaced.
  link_shared_object(input, "/dev/null");
  struct stat status;
  ASSERT_EQ(stat("/dev/null", &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
  EXPECT_TRUE(contains(message_of(input, "/dev/full", ExitCode::environment), "o space left"));
  // An earlier file survives a failure.
  write_file_atomically(folder / "old.so", std::string_view("old"));
  LinkInput broken = input;
  broken.cpu_objects.clear();
  message_of(broken, folder / "old.so", ExitCode::internal);
  EXPECT_EQ(MappedFile::open(folder / "old.so")->text(), "old");
  EXPECT_EQ(folder.files(), std::vector<std::string>{"old.so"});
}

TEST(Link, FullDisk) {
  TemporaryFolder folder;
  const std::string disk = folder / "disk";
  mkdir(disk.c_str(), 0777);
  if (mount("none", disk.c_str(), "tmpfs", 0, "size=64k") != 0) GTEST_SKIP() << "a small disk cannot be mounted here: " << strerror(errno);
  LinkInput input = toy_model(folder);
  input.program.weights.push_back({"big", DType::u8, {1 << 20}});
  input.weights.emplace_back(DType::u8, Shape{1 << 20});
  const std::string message = message_of(input, disk + "/model.so", ExitCode::environment);
  EXPECT_TRUE(contains(message, "o space left on device")) << message;
  EXPECT_EQ(run_command("ls -A '" + disk + "'").output, "");
  umount(disk.c_str());
}

TEST(Link, NamesWhatDoesNotFit) {
  TemporaryFolder folder;
  LinkInput input = toy_model(folder, true);
  FunctionCode& code = input.program.targets[0].functions[0];
  code.launches[0].arguments = {0};
  code.launches[1].kernel = 5;
  code.launches[2].size_bytes = 100;
  code.buffers[2].offset = 500;
  input.program.targets[1].kernels[0].images.clear();
  const std::string message = message_of(input, folder / "a.so", ExitCode::internal);
  EXPECT_TRUE(contains(message, "launch 0 `block/Scale` has 1 arguments, expected 2")) << message;
  EXPECT_TRUE(contains(message, "launch 1 `block/Add` names kernel 5 of 2")) << message;
  EXPECT_TRUE(contains(message, "launch 2 `copy of x` moves 100 bytes")) << message;
  EXPECT_TRUE(contains(message, "buffer 2 `t` ends at 524 in an arena of 512 bytes")) << message;
  EXPECT_TRUE(contains(message, "kernel `scale` has no code")) << message;

  LinkInput lacking = toy_model(folder);
  lacking.cpu_objects[0].bytes = test::compile_c(folder, R"(
    #include <stdint.h>
    double sin(double);
    void tcc_v1_scale(void* const* b, int64_t begin, int64_t end) { *(double*)b[0] = sin(begin + end); })");
  const std::string undefined = message_of(lacking, folder / "a.so", ExitCode::internal);
  EXPECT_TRUE(contains(undefined, "undefined symbol: tcc_v1_add__weight") ||
              contains(undefined, "undefined hidden symbol: tcc_v1_add__weight"))
      << undefined;
  EXPECT_TRUE(contains(undefined, "undefined symbol: sin")) << undefined;
  EXPECT_TRUE(contains(undefined, "kernels.o")) << undefined;
  lacking.symbol_prefix = "not an identifier";
  EXPECT_TRUE(contains(message_of(lacking, folder / "a.so", ExitCode::usage), "expected a C identifier"));
}

TEST(Link, EqualWeightsAreStoredOnce) {
  TemporaryFolder folder;
  LinkInput input = toy_model(folder);
  const size_t before = write_program(input).size();
  Tensor big(DType::u8, {1 << 20});
  for (int i = 0; i < 1 << 20; i++) big.mutable_bytes()[i] = static_cast<std::byte>(i * 7 >> 3);
  for (int copy = 0; copy < 4; copy++) {
    input.program.weights.push_back({"big" + std::to_string(copy), DType::u8, {1 << 20}});
    input.weights.push_back(big);
  }
  link_shared_object(input, folder / "a.so");
  EXPECT_GT(write_program(input).size(), before);
  const auto file = MappedFile::open(folder / "a.so");
  EXPECT_LT(file->bytes().size(), (1u << 20) + 300000);
  // The weights' page begins a page of the file, so that the system maps it as it is.
  const size_t at = file->text().find(std::string_view(reinterpret_cast<const char*>(big.bytes()), 4096));
  ASSERT_NE(at, std::string_view::npos);
  EXPECT_EQ(at % 64, 0u);
}

/// The largest resident size of this process since it was last forgotten, in bytes; 0 where the system doesn't tell.
int64_t peak_memory() {
  const std::string status = read_text_file("/proc/self/status");
  const size_t at = status.find("VmHWM:");
  return at == std::string::npos ? 0 : std::stoll(status.substr(at + 6)) * 1024;
}
bool forget_peak_memory() {
  FILE* file = fopen("/proc/self/clear_refs", "w");
  if (file == nullptr) return false;
  const bool written = fputs("5", file) >= 0;
  return fclose(file) == 0 && written;
}

// The linker makes a library without its weights; they are written where it left room for them.
TEST(Link, WeightsStandInTheFileAsTheLoaderMapsThem) {
  TemporaryFolder folder;
  for (const int64_t size : {1, 64, 4095, 4096, 1 << 20}) {
    LinkInput input = toy_model(folder);
    Tensor big(DType::u8, {size});
    for (int64_t i = 0; i < size; i++) big.mutable_bytes()[i] = static_cast<std::byte>(i * 7 >> 3);
    input.program.weights.push_back({"big", DType::u8, {size}});
    input.weights.push_back(big);
    link_shared_object(input, folder / "a.so");
    const auto file = MappedFile::open(folder / "a.so");
    const std::byte* bytes = file->bytes().data();
    Elf64_Ehdr header;
    memcpy(&header, bytes, sizeof header);
    const auto row = [&]<class Row>(Row* to, uint64_t table, size_t i) { memcpy(to, bytes + table + i * sizeof *to, sizeof *to); };
    Elf64_Shdr names, section = {};
    row(&names, header.e_shoff, header.e_shstrndx);
    for (size_t i = 0; i < header.e_shnum; i++) {
      Elf64_Shdr found;
      row(&found, header.e_shoff, i);
      if (std::string_view(reinterpret_cast<const char*>(bytes) + names.sh_offset + found.sh_name) == ".lrodata") section = found;
    }
    ASSERT_EQ(section.sh_type, static_cast<uint32_t>(SHT_PROGBITS)) << size;
    ASSERT_EQ(section.sh_size % 64, 0u);
    EXPECT_EQ(section.sh_offset % 4096, 0u);
    const std::string_view stored(reinterpret_cast<const char*>(bytes) + section.sh_offset, section.sh_size);
    EXPECT_NE(stored.find(std::string_view(reinterpret_cast<const char*>(big.bytes()), static_cast<size_t>(size))), std::string_view::npos);
    // Each byte of the file has one meaning, and pages can be mapped.
    uint64_t end = 0;
    bool mapped = false;
    for (size_t i = 0; i < header.e_phnum; i++) {
      Elf64_Phdr segment;
      row(&segment, header.e_phoff, i);
      if (segment.p_type != PT_LOAD) continue;
      EXPECT_EQ((segment.p_vaddr - segment.p_offset) % segment.p_align, 0u);
      EXPECT_GE(segment.p_offset, end) << size;
      end = segment.p_offset + segment.p_filesz;
      EXPECT_LE(end, file->bytes().size());
      const uint64_t distance = section.sh_addr - segment.p_vaddr;
      mapped |= distance < segment.p_filesz && segment.p_offset + distance == section.sh_offset;
    }
    EXPECT_TRUE(mapped) << size;
    runtime::Instance instance(runtime::Library::open(folder / "a.so"));
    test::expect_toy_outputs(instance.run({test::toy_input(0.5f)}), 0.5f);
  }
}

TEST(Link, WeightsAreHeldOnce) {
  TemporaryFolder folder;
  LinkInput input = toy_model(folder);
  constexpr int64_t kBytes = int64_t{128} << 20;
  Tensor big(DType::u8, {kBytes});
  for (int64_t i = 0; i < kBytes; i += 64) big.mutable_bytes()[i] = static_cast<std::byte>(i >> 6);
  input.program.weights.push_back({"big", DType::u8, {kBytes}});
  input.weights.push_back(big);
  if (!forget_peak_memory()) GTEST_SKIP() << "the system keeps the peak of memory to itself";
  const int64_t before = peak_memory();
  ASSERT_GE(before, kBytes);
  link_shared_object(input, folder / "a.so");
  EXPECT_LT(peak_memory() - before, kBytes / 2);
}

TEST(Link, Manifest) {
  TemporaryFolder folder;
  const std::string text = write_manifest(toy_model(folder, true));
  write_file_atomically(folder / "toy.json", std::string_view(text));
  EXPECT_TRUE(contains(text, R"({"label": "block/Add", "kernel": "add_weight", "grid": 2, "buffers": ["t", "w", "y"]})")) << text;
  EXPECT_TRUE(contains(text, R"("peak_bytes": 512)"));
  EXPECT_TRUE(contains(text, R"("levels": ["x86-64-v1"])"));
  EXPECT_EQ(run_command("python3 -m json.tool '" + (folder / "toy.json") + "' > /dev/null").exit_code, 0);
}

TEST(Link, ManifestOfATrainingLibrary) {
  TemporaryFolder folder;
  const LinkInput input = test::toy_trainer(folder, 2, true);
  const std::string text = write_manifest(input);
  for (
      const char* part :
      {R"("accumulate": 2,)",
       R"({"name": "w", "role": "parameter", "dtype": "f32", "shape": [4], "bytes": 16, "section": "parameters.f32", "offset": 0, "trained": true})",
       R"({"name": "b", "role": "parameter", "dtype": "f32", "shape": [70], "bytes": 280, "section": "parameters.f32", "offset": 256, "trained": false})",
       R"({"name": "optimizer.step", "role": "optimizer", "dtype": "f32", "shape": [], "bytes": 4, "section": "optimizer.f32", "offset": 0})",
       R"({"name": "gradients.f32", "role": "gradient", "dtype": "f32", "bytes": 768})",
       R"({"name": "lr", "dtype": "f32", "default": 0.125})"}) {
    EXPECT_TRUE(contains(text, part)) << part << "\n" << text;
  }
  EXPECT_FALSE(contains(text, "flat"));  // a view
  // state 2816 + 256 of scalars, gradients 768, workspace 1024
  EXPECT_EQ(planned_memory(input, input.program.targets[0], 1).peak_bytes(), 2816 + 256 + 768 + 1024u);
  EXPECT_TRUE(contains(text, R"("planned_peak_bytes": 4864)"));
  EXPECT_EQ(planned_memory(input, input.program.targets[0], 0).peak_bytes(), 2816 + 256u);
  write_file_atomically(folder / "trainer.json", std::string_view(text));
  EXPECT_EQ(run_command("python3 -m json.tool '" + (folder / "trainer.json") + "' > /dev/null").exit_code, 0);
}

TEST(Link, NamesWhatDoesNotFitInTheState) {
  TemporaryFolder folder;
  LinkInput input = test::toy_trainer(folder);
  input.program.accumulate = 4;
  input.program.state.tensors[1].offset = 700;
  input.program.state.tensors[0].initial = Tensor(DType::f32, {3});
  for (StateTensor& tensor : input.program.state.tensors) {
    if (tensor.name == "optimizer.master.h") tensor.converted_from = "w";
  }
  FunctionCode& step = input.program.targets[0].functions[1];
  step.buffers.push_back({BufferKind::state, 1, 512, 300, "far"});
  step.buffers.push_back({BufferKind::scalar, 2, 0, 4, "rate"});
  step.launches.push_back({.kind = LaunchKind::fill, .arguments = {6}, .label = "set lr", .size_bytes = 4});
  input.program.targets[0].functions.pop_back();
  const std::string half = message_of(input, folder / "a.so", ExitCode::internal);
  EXPECT_TRUE(contains(half, "code for 4 functions of 5")) << half;
  input.program.targets[0].functions.emplace_back();
  const std::string message = message_of(input, folder / "a.so", ExitCode::internal);
  for (const char* part :
       {"a step has 4 micro-batches, without functions `step` and `accumulate`",
        "state tensor `b` does not lie in its section `parameters.f32`", "state tensor `w` has first contents of 12 bytes, expected 16",
        "state tensor `optimizer.master.h` begins as `w`, which isn't the same in 16 bits", "target cpu, function step",
        "`far` ends at 812 in a state block of 768 bytes", "`rate` is scalar 2 of 2",
        "launch 2 `set lr` writes to an input, weight or scalar"}) {
    EXPECT_TRUE(contains(message, part)) << part << "\n" << message;
  }
}

TEST(Link, CpuSymbolsAreUnique) {
  EXPECT_EQ(cpu_symbol("k0", CpuLevel::v3), "tcc_v3_k0");
  EXPECT_NE(cpu_symbol("a_x2e", CpuLevel::v3), cpu_symbol("a.", CpuLevel::v3));
  EXPECT_NE(cpu_symbol("k0", CpuLevel::v3), cpu_symbol("k0", CpuLevel::v4));
}

}  // namespace
}  // namespace tcc::link
