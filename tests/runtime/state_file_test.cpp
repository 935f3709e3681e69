// State as safetensors files: round trips here, with tcc's own reader and with Python's package, and files that have to be refused.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <random>
#include <sstream>

#include "runtime/toy_trainer.h"
#include "tcc/runtime/library.h"
#include "tcc/support/files.h"
#include "tcc/support/safetensors.h"

namespace tcc {
namespace {

using runtime::Device;
using runtime::Instance;
using runtime::Library;
using test::floats;
using test::run_command;
using test::values_of;

const std::vector<float> kX = {1, 0.5f, -1, 2}, kTarget = {0, 1, 2, 3};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class StateFile : public testing::Test {
 protected:
  void SetUp() override {
    link::link_shared_object(test::toy_trainer(folder_), folder_ / "trainer.so");
    library_ = Library::open(folder_ / "trainer.so");
    instance_ = std::make_unique<Instance>(
        library_, runtime::InstanceOptions{.device = Device::cpu, .log = [&](const std::string& line) { log_ = line; }});
    for (int i = 0; i < 3; i++) instance_->step({floats(kX), floats(kTarget)});
    instance_->save_state(path_);
  }

  std::vector<std::string> everything() const {
    std::vector<std::string> bytes;
    for (const runtime::StateInfo& info : library_->state()) {
      const Tensor tensor = instance_->read_state(info.name);
      bytes.emplace_back(reinterpret_cast<const char*>(tensor.bytes()), static_cast<size_t>(tensor.size_bytes()));
    }
    return bytes;
  }
  /// The refusal, after which nothing has changed.
  std::string refused(const std::string& path, bool parameters_only = false) {
    const std::vector<std::string> before = everything();
    const std::string message = test::message_of([&] { instance_->load_state(path, parameters_only); }, ExitCode::environment);
    EXPECT_EQ(before, everything());
    return message;
  }
  /// The same for a file of this header and so much data.
  std::string refused_json(const std::string& json, size_t data_bytes = 0, bool parameters_only = false) {
    std::string file(8, '\0');
    const uint64_t length = json.size();
    std::memcpy(file.data(), &length, 8);
    write_file_atomically(folder_ / "bad", std::string_view(file + json + std::string(data_bytes, '\1')));
    return refused(folder_ / "bad", parameters_only);
  }
  std::map<std::string, Tensor> saved() const { return read_safetensors(path_).tensors; }

  test::TemporaryFolder folder_;
  const std::string path_ = folder_ / "state.safetensors";
  std::shared_ptr<const Library> library_;
  std::unique_ptr<Instance> instance_;
  std::string log_;
};

TEST_F(StateFile, GoesOnWhereItStopped) {
  const auto tensors = saved();
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"b", "calls", "h", "optimizer.master.h", "optimizer.momentum.b", "optimizer.momentum.w",
                                             "optimizer.step", "running", "w"}));
  EXPECT_EQ(values_of(tensors.at("w")), values_of(instance_->read_state("w")));
  EXPECT_TRUE(tensors.at("optimizer.step").shape().empty());
  EXPECT_EQ(tensors.at("calls").as_int64(0), 7);
  EXPECT_EQ(read_safetensors(path_).metadata.at("tcc.model"), "trainer");
  const std::vector<std::string> at_save = everything();
  const float next = values_of(instance_->step({floats(kX), floats(kTarget)})[0])[0];
  instance_->load_state(path_);
  EXPECT_EQ(everything(), at_save);
  EXPECT_EQ(values_of(instance_->step({floats(kX), floats(kTarget)})[0])[0], next);
  // Another process, another instance; the same state gives the same bytes.
  Instance fresh(library_, {.device = Device::cpu});
  fresh.load_state(path_);
  fresh.save_state(folder_ / "again");
  EXPECT_EQ(MappedFile::open(folder_ / "again")->text(), MappedFile::open(path_)->text());
  // Written by others, in their order.
  write_safetensors(folder_ / "ours", tensors, {{"format", "pt"}});
  fresh.reset_state();
  fresh.load_state(folder_ / "ours");
  EXPECT_EQ(values_of(fresh.step({floats(kX), floats(kTarget)})[0])[0], next);
  EXPECT_EQ(folder_.files(), (std::vector<std::string>{"again", "ours", "state.safetensors", "trainer.so"}));
}

TEST_F(StateFile, ParametersAlone) {
  auto tensors = saved();
  std::map<std::string, Tensor> parameters;
  for (const auto& [name, tensor] : tensors) {
    if (!name.starts_with("optimizer.")) parameters.emplace(name, tensor);
  }
  Tensor h(DType::bf16, {3});
  for (int i = 0; i < 3; i++) h.set_double(i, 8 + i);
  parameters["h"] = h;
  write_safetensors(folder_ / "parameters", parameters);
  instance_->load_state(folder_ / "parameters");
  EXPECT_TRUE(contains(log_, "has no optimizer state: the parameters are taken, the optimizer starts anew")) << log_;
  EXPECT_EQ(values_of(instance_->read_state("optimizer.momentum.w")), (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(values_of(instance_->read_state("optimizer.master.h")), (std::vector<float>{8, 9, 10}));  // the masters are those of the file
  EXPECT_EQ(values_of(instance_->read_state("w")), values_of(tensors.at("w")));
  // The whole file, of which the optimizer is not asked for; even one that this library does not know.
  tensors.erase("optimizer.step");
  tensors.emplace("optimizer.exp_avg.w", floats({1, 2, 3, 4}));
  write_safetensors(folder_ / "other", tensors);
  EXPECT_TRUE(contains(refused(folder_ / "other"), "tensor `optimizer.exp_avg.w` is not a part of the library's state"));
  instance_->load_state(folder_ / "other", true);
  EXPECT_TRUE(contains(log_, "other`: the parameters are taken")) << log_;
  parameters.erase("running");
  write_safetensors(folder_ / "parameters", parameters);
  EXPECT_TRUE(contains(refused(folder_ / "parameters"), "tensor `running` is missing"));
}

TEST_F(StateFile, RefusesWhatDoesNotFit) {
  const auto with = [&](const char* name, const Tensor& tensor) {
    auto tensors = saved();
    tensors[name] = tensor;
    write_safetensors(folder_ / "bad", tensors);
    return refused(folder_ / "bad");
  };
  EXPECT_TRUE(contains(with("w", floats({1, 2, 3, 4}, {2, 2})), "tensor `w`: shape is [2, 2], expected [4]"));
  EXPECT_TRUE(contains(with("w", Tensor(DType::f16, {4})), "tensor `w`: dtype is F16, expected F32"));
  EXPECT_TRUE(contains(with("extra", floats({1, 2, 3, 4})), "tensor `extra` is not a part of the library's state"));
  EXPECT_TRUE(contains(with("grad.w", floats({1, 2, 3, 4})), "tensor `grad.w` is not a part of the library's state"));
  auto tensors = saved();
  tensors.erase("optimizer.momentum.b");
  write_safetensors(folder_ / "bad", tensors);
  EXPECT_TRUE(contains(refused(folder_ / "bad"), "tensor `optimizer.momentum.b` is missing"));
  EXPECT_TRUE(contains(refused(folder_ / "nothing"), "cannot be opened: error 2: No such file or directory"));
  EXPECT_TRUE(contains(refused(folder_.path()), "cannot be read"));
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_TRUE(contains(refused(folder_ / "pipe"), "cannot be read"));  // and nobody is waited for
  EXPECT_TRUE(contains(refused(folder_ / "trainer.so"), "is not a safetensors file"));
  const std::string whole(MappedFile::open(path_)->text());
  for (const size_t size : {size_t{0}, size_t{7}, size_t{8}, size_t{100}, whole.size() - 1}) {
    write_file_atomically(folder_ / "bad", std::string_view(whole).substr(0, size));
    EXPECT_TRUE(contains(refused(folder_ / "bad"), "state file")) << size;
  }
  write_file_atomically(folder_ / "bad", std::string_view(whole + "x"));
  EXPECT_TRUE(contains(refused(folder_ / "bad"), "leave a hole"));
}

TEST_F(StateFile, RefusesHostileHeaders) {
  std::istringstream lines(read_text_file(std::string(TCC_TEST_DATA_DIR) + "/hostile_headers.txt"));
  int num_headers = 0;
  std::string header;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("header:")) header = line.substr(std::min<size_t>(8, line.size()));
    if (!line.starts_with("says: ")) continue;
    ++num_headers;
    EXPECT_TRUE(contains(refused_json(header, 16), line.substr(6))) << header << "\n" << refused_json(header, 16);
  }
  EXPECT_EQ(num_headers, 28);
  // All there, one on top of the other: sizes and offsets that fit do not make it right.
  std::string json = "{", separator;
  for (const runtime::StateInfo& info : library_->state()) {
    if (info.role == StateRole::gradient) continue;
    json += separator + "\"" + info.name + "\":{\"dtype\":\"" +
            (info.dtype == DType::bf16  ? "BF16"
             : info.dtype == DType::i64 ? "I64"
                                        : "F32") +
            "\",\"shape\":" + to_string(info.shape) + ",\"data_offsets\":[0," + std::to_string(info.size_bytes) + "]}";
    separator = ",";
  }
  EXPECT_TRUE(contains(refused_json(json + "}", 280), "its tensors overlap or leave a hole"));
  // A header that claims to be larger than memory.
  write_file_atomically(folder_ / "bad", std::string_view(std::string(8, '\x7f') + "{}"));
  EXPECT_TRUE(contains(refused(folder_ / "bad"), "its header would have"));
}

// Random damage to a good file, from single bytes to whole stretches: it is taken, or refused with nothing changed; never anything else.
TEST_F(StateFile, RandomBytes) {
  const std::string whole(MappedFile::open(path_)->text());
  uint64_t header_bytes;
  std::memcpy(&header_bytes, whole.data(), 8);
  const unsigned seed = 7;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::string likely = "{}[]\",:\\0123456789u -eE.wFd";
  const tcc_api& api = library_->api();
  int taken = 0;
  for (int i = 0; i < 4000; i++) {
    std::string file = whole;
    const size_t limit = i % 3 ? 8 + header_bytes : file.size();
    for (int change = static_cast<int>(random() % 4); change >= 0; change--) {
      const size_t at = random() % limit;
      switch (random() % 6) {
        case 0: file[at] = static_cast<char>(random()); break;
        case 1: file[at] = likely[random() % likely.size()]; break;
        case 2: file.erase(at, 1 + random() % 9); break;
        case 3: file.insert(at, 1 + random() % 3, likely[random() % likely.size()]); break;
        case 4: file.resize(at); break;
        default: std::swap(file[at], file[random() % limit]); break;
      }
      file.resize(std::max<size_t>(file.size(), limit));
    }
    unlink((folder_ / "bad").c_str());  // a file system may wait for the disk where a file is cut and written anew
    FILE* bad = fopen((folder_ / "bad").c_str(), "wb");
    fwrite(file.data(), 1, file.size(), bad);
    fclose(bad);
    const std::vector<std::string> before = i % 50 ? std::vector<std::string>() : everything();
    const int status = api.load_state(instance_->handle(), (folder_ / "bad").c_str(), i % 2 ? TCC_LOAD_PARAMETERS : 0);
    taken += status == TCC_OK;
    ASSERT_TRUE(status == TCC_OK || status == TCC_FILE_ERROR) << i << ": " << status << " " << api.last_error();
    if (i % 50 == 0 && status != TCC_OK) { ASSERT_EQ(before, everything()) << i; }
  }
  EXPECT_GT(taken, 0);  // where only data or spaces changed
  EXPECT_LT(taken, 3000);
}

TEST_F(StateFile, WritesAllOrNothing) {
  const std::string before(MappedFile::open(path_)->text());
  const std::string disk = folder_ / "disk";
  const auto message = [&](const std::string& path) {
    return test::message_of([&] { instance_->save_state(path); }, ExitCode::environment);
  };
  EXPECT_TRUE(contains(message(folder_ / "no/such/file"), "cannot be created: error 2")) << message(folder_ / "no/such/file");
  EXPECT_TRUE(contains(message(folder_.path()), "there is a folder of that name"));
  EXPECT_TRUE(contains(message("/dev/null"), "something that is not a file"));
  mkdir(disk.c_str(), 0777);
  if (mount("none", disk.c_str(), "tmpfs", 0, "size=4k") != 0) GTEST_SKIP() << "a small disk cannot be mounted here: " << strerror(errno);
  write_file_atomically(disk + "/state", std::string_view("old"));
  const std::string full = message(disk + "/state");
  EXPECT_TRUE(contains(full, "cannot be written: error 28") || contains(full, "cannot be created: error 28")) << full;
  EXPECT_EQ(run_command("ls -A '" + disk + "' && cat '" + disk + "/state'").output, "state\nold");
  umount(disk.c_str());
  EXPECT_EQ(MappedFile::open(path_)->text(), before);
}

TEST_F(StateFile, PythonReadsAndWritesIt) {
  if (run_command("python3 -c 'import safetensors.numpy'").exit_code != 0)
    GTEST_SKIP() << "python3 with the packages safetensors and numpy is not here";
  const auto ran =
      run_command("python3 '" + std::string(TCC_TEST_DATA_DIR) + "/safetensors_check.py' '" + path_ + "' '" + (folder_ / "python") + "'");
  ASSERT_EQ(ran.exit_code, 0) << ran.output;
  std::vector<float> expected = values_of(instance_->read_state("w"));
  for (float& value : expected) value *= 2;
  instance_->load_state(folder_ / "python");
  EXPECT_EQ(values_of(instance_->read_state("w")), expected);
  EXPECT_EQ(instance_->read_state("h").as_double(1), 1.5);
}

}  // namespace
}  // namespace tcc
