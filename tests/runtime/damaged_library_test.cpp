// Libraries with a flipped bit, or cut: each is opened in a process of its own, which may refuse it or compute what is right, and nothing else.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <random>

#include "runtime/toy_model.h"
#include "tcc/runtime/library.h"
#include "tcc/runtime/program.h"
#include "tcc/support/files.h"

namespace tcc {
namespace {

using runtime::Device;
using runtime::Instance;
using runtime::Library;
using test::message_of;
using test::TemporaryFolder;

enum Outcome { kRight = 0, kRefused = 10, kWrong = 11, kOtherError = 12 };

/// What becomes of `action` in a child: its return value, or 128 + the signal. Ten seconds are a hang.
int in_child(const std::function<int()>& action) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    int code = kOtherError;
    try {
      code = action();
    } catch (const Error& error) { code = error.code() == ExitCode::environment ? kRefused : kOtherError; } catch (...) {
    }
    _exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool is_right(const float* y, const float* z, const int32_t* u) {
  bool right = u[0] == 0 && u[1] == 0 && u[2] == 7 && u[3] == 7;
  for (int i = 0; i < 6; i++) {
    const float x = 0.5f + static_cast<float>(i);
    right = right && y[i] == 2 * x + static_cast<float>(10 * i) && z[i] == x;
  }
  return right;
}

/// As `tcc run` does it.
int open_and_run(const std::string& path, bool check) {
  const auto library = Library::open(path, check ? Library::Check::whole : Library::Check::usual);
  Instance instance(library, {.device = Device::cpu, .num_threads = 1, .check_weights = check});
  const std::vector<Tensor> outputs = instance.run({test::toy_input(0.5f)});
  return is_right(outputs[0].data<float>(), outputs[1].data<float>(), outputs[2].data<int32_t>()) ? kRight : kWrong;
}

/// As a C program does it, which has nothing but the library.
int load_and_run(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) return kRefused;
  const auto query = reinterpret_cast<tcc_query_function>(dlsym(handle, "tcc_model_query"));
  const tcc_api* api = query ? query(TCC_ABI_VERSION) : nullptr;
  if (!api) return kRefused;
  tcc_create_options options = {};
  options.struct_size = sizeof options;
  options.device = TCC_DEVICE_CPU;
  tcc_instance* instance = nullptr;
  tcc_tensor_info info = {};
  info.struct_size = sizeof info;
  if (const int status = api->describe_function_input(0, 0, &info)) return status == TCC_DAMAGED_LIBRARY ? kRefused : kOtherError;
  if (api->create(&options, &instance)) return kRefused;
  float x[6] = {0.5f, 1.5f, 2.5f, 3.5f, 4.5f, 5.5f}, y[6] = {}, z[6] = {};
  int32_t u[4] = {};
  const int64_t shape[] = {2, 3}, four[] = {4};
  const tcc_tensor in = {x, shape, nullptr, 2, TCC_F32, 0, 0, {}};
  const tcc_tensor out[] = {
      {y, shape, nullptr, 2, TCC_F32, 0, 0, {}}, {z, shape, nullptr, 2, TCC_F32, 0, 0, {}}, {u, four, nullptr, 1, TCC_I32, 0, 0, {}}};
  if (api->run(instance, &in, 1, out, 3, nullptr, 0, nullptr)) return kOtherError;
  return is_right(y, z, u) ? kRight : kWrong;
}

class Damaged : public testing::Test {
 protected:
  void SetUp() override {
    link::link_shared_object(test::toy_model(folder_, true), folder_ / "toy.so");
    whole_ = std::string(MappedFile::open(folder_ / "toy.so")->text());
    ASSERT_EQ(open_and_run(folder_ / "toy.so", true), kRight);
    const size_t seal = whole_.size() - sizeof(program::LibrarySeal);
    memcpy(&seal_, whole_.data() + seal, sizeof seal_);
    program_begin_ = whole_.find(std::string_view(program::kMagic, sizeof program::kMagic));
    ASSERT_NE(program_begin_, std::string::npos);
    program::Header header;
    memcpy(&header, whole_.data() + program_begin_, sizeof header);
    program_end_ = program_begin_ + header.program_bytes;
  }

  /// The library with bit `bit` of byte `at` the other way round.
  std::string flipped(size_t at, unsigned bit) const {
    std::string bytes = whole_;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
    write_file_atomically(folder_ / "damaged.so", std::string_view(bytes), 0777);
    return folder_ / "damaged.so";
  }

  TemporaryFolder folder_;
  std::string whole_;
  program::LibrarySeal seal_;
  size_t program_begin_ = 0, program_end_ = 0;
};

// With every check, whatever bit it is: refused, or the bit meant nothing.
TEST_F(Damaged, NoFlippedBitIsAcceptedWithAWrongResult) {
  std::mt19937 random(20);
  ASSERT_LT(seal_.weights_begin, seal_.weights_end);
  int refused = 0;
  for (int i = 0; i < 400; i++) {
    // One in four in the weights, a small part of the file.
    const size_t at = i % 4 == 0 ? seal_.weights_begin + random() % (seal_.weights_end - seal_.weights_begin) : random() % whole_.size();
    const unsigned bit = random() % 8;
    const std::string path = flipped(at, bit);
    const int outcome = in_child([&] { return open_and_run(path, true); });
    EXPECT_TRUE(outcome == kRefused || outcome == kRight) << "byte " << at << " bit " << bit << ": " << outcome;
    refused += outcome == kRefused;
  }
  EXPECT_GT(refused, 300);
}

// Without them what is not covered are the weights, and all but the weights is refused before it can do harm.
TEST_F(Damaged, OnlyWeightsAreTakenUnchecked) {
  std::mt19937 random(21);
  for (int i = 0; i < 200; i++) {
    const size_t at = random() % whole_.size();
    const unsigned bit = random() % 8;
    const std::string path = flipped(at, bit);
    const int outcome = in_child([&] { return open_and_run(path, false); });
    const bool in_weights = at >= seal_.weights_begin && at < seal_.weights_end;
    const bool in_magic_of_seal = at >= whole_.size() - sizeof seal_ && at < whole_.size() - sizeof seal_ + sizeof seal_.magic;
    if (in_weights) EXPECT_TRUE(outcome == kRight || outcome == kWrong) << "byte " << at << " bit " << bit << ": " << outcome;
    else EXPECT_EQ(outcome, in_magic_of_seal ? kRight : kRefused) << "byte " << at << " bit " << bit;
  }
}

// What a program that only has the library is promised: its tables.
TEST_F(Damaged, TablesAreCheckedByTheLibraryItself) {
  std::mt19937 random(22);
  for (int i = 0; i < 400; i++) {
    const size_t at = program_begin_ + (i < 100 ? random() % sizeof(program::Header) : random() % (program_end_ - program_begin_));
    const unsigned bit = random() % 8;
    const std::string path = flipped(at, bit);
    EXPECT_EQ(in_child([&] { return load_and_run(path); }), kRefused) << "byte " << at - program_begin_ << " of the program, bit " << bit;
  }
}

TEST_F(Damaged, CutFilesAreToldFromTheirHeaders) {
  std::mt19937 random(23);
  const std::string path = folder_ / "cut.so";
  for (int i = 0; i < 60; i++) {
    const size_t size = i < 8 ? static_cast<size_t>(1 << i) : random() % (whole_.size() - sizeof seal_);
    write_file_atomically(path, std::string_view(whole_).substr(0, size), 0777);
    EXPECT_EQ(in_child([&] { return open_and_run(path, false); }), kRefused) << size << " bytes";
  }
  write_file_atomically(path, std::string_view(whole_).substr(0, whole_.size() / 2), 0777);
  EXPECT_EQ(message_of([&] { Library::open(path); }, ExitCode::environment),
            path + ": error: is truncated: it has " + std::to_string(whole_.size() / 2) + " bytes of " + std::to_string(seal_.file_bytes) +
                " [unusable-library]\n" + path + ": help: copy it again, or compile the model again");
  // A tool that rewrites libraries leaves the seal out: usable, but not to be checked.
  write_file_atomically(path, std::string_view(whole_).substr(0, seal_.file_bytes), 0777);
  EXPECT_EQ(open_and_run(path, false), kRight);
  EXPECT_NE(message_of([&] { Library::open(path, Library::Check::whole); }, ExitCode::environment).find("can't be checked"),
            std::string::npos);
}

TEST(DamagedWeights, OfAFileOfTheirOwn) {
  TemporaryFolder folder;
  link::LinkInput input = test::toy_model(folder);
  input.embed_weights = false;
  link::link_shared_object(input, folder / "toy.so");
  const std::string path = folder / "toy.weights";
  link::write_weights_file(input, path);
  const std::string whole(MappedFile::open(path)->text());
  const auto library = Library::open(folder / "toy.so");
  const auto create = [&](bool check) {
    Instance instance(library, {.device = Device::cpu, .weights_path = path, .check_weights = check});
  };
  create(true);
  for (size_t at = program::kWeightsFileHeaderBytes; at < program::kWeightsFileHeaderBytes + 24; at++) {
    std::string bytes = whole;
    bytes[at] ^= 4;
    write_file_atomically(path, std::string_view(bytes));
    create(false);  // not read
    EXPECT_EQ(message_of([&] { create(true); }, ExitCode::environment),
              (folder / "toy.so") + ": error: weights file `" + path +
                  "` is damaged: it was changed after it was written with this library [file-error]");
  }
  write_file_atomically(path, std::string_view(whole).substr(0, whole.size() - 1));
  EXPECT_NE(message_of([&] { create(false); }, ExitCode::environment).find("bytes, expected"), std::string::npos);
}

TEST(DamagedWeights, InsideTheLibrary) {
  TemporaryFolder folder;
  link::link_shared_object(test::toy_model(folder), folder / "toy.so");
  std::string bytes(MappedFile::open(folder / "toy.so")->text());
  program::LibrarySeal seal;
  memcpy(&seal, bytes.data() + bytes.size() - sizeof seal, sizeof seal);
  bytes[seal.weights_begin + 5] ^= 1;
  write_file_atomically(folder / "toy.so", std::string_view(bytes), 0777);
  const auto library = Library::open(folder / "toy.so", Library::Check::whole);
  EXPECT_EQ(message_of([&] { Instance instance(library, {.device = Device::cpu, .check_weights = true}); }, ExitCode::environment),
            (folder / "toy.so") + ": error: the weights inside this library are damaged: compile the model again [unusable-library]");
}

}  // namespace
}  // namespace tcc
