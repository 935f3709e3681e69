// Every verb in trouble: ended by a signal at any moment, on a full disk, with few file handles, with little memory. The exit code is the
// documented one, the files of the command are all as they were or all new, and nothing temporary stays.
//
//   build/dev/tests/test_cli_trouble                     some runs of each
//   TCC_TROUBLE_RUNS=100 TCC_TROUBLE_SEED=7 build/dev/tests/test_cli_trouble
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <stdexcept>
#include <thread>

#include "cli/program.h"
#include "tcc/support/files.h"

namespace tcc::test {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr auto kLongest = std::chrono::seconds(60);  // of one run: whatever happens, it ends

int number_from(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::atoi(text) : otherwise;
}

struct Trouble {
  int signal = 0;
  double delay_seconds = 0;
  /// RLIMIT_FSIZE, RLIMIT_NOFILE, RLIMIT_AS; -1: none.
  int resource = -1;
  rlim_t limit = 0;
};

struct End {
  int exit_code = -1;  ///< 128 + the signal that ended it
  double seconds = 0;
  std::string out, err;
};

/// What a child writes, by a pipe: a limit on file sizes and a full disk would cut off what it says in a file.
class Pipe {
 public:
  Pipe() {
    if (::pipe2(ends_, O_CLOEXEC) != 0) throw std::runtime_error("a pipe can't be made");
    ::fcntl(ends_[0], F_SETFL, O_NONBLOCK);
  }
  ~Pipe() {
    for (const int end : ends_) ::close(end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int write_end() const { return ends_[1]; }
  /// Adds to `text` what is there now.
  void drain(std::string& text) const {
    char buffer[4096];
    for (ssize_t n; (n = ::read(ends_[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(n));
  }

 private:
  int ends_[2] = {-1, -1};
};

/// Runs the program with TMPDIR and the current folder as given.
End run_in_trouble(const std::vector<std::string>& arguments, const std::string& folder, const std::string& temporary,
                   const Trouble& trouble) {
  std::vector<std::string> words = {TCC_EXECUTABLE};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const Pipe out, err;
  const auto start = Clock::now();
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(out.write_end(), 1);
    ::dup2(err.write_end(), 2);
    for (int fd = 3; fd < 64; ++fd) ::close(fd);
    ::setenv("TMPDIR", temporary.c_str(), 1);
    if (::chdir(folder.c_str()) != 0) ::_exit(126);
    if (trouble.resource >= 0) {
      const struct rlimit limit = {trouble.limit, trouble.limit};
      ::setrlimit(static_cast<__rlimit_resource>(trouble.resource), &limit);
    }
    ::execv(argv[0], argv.data());
    ::_exit(126);
  }
  if (trouble.signal != 0) {
    std::this_thread::sleep_for(std::chrono::duration<double>(trouble.delay_seconds));
    ::kill(child, trouble.signal);  // not waited for yet: the id is its own
  }
  int status = 0;
  End end;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    out.drain(end.out);
    err.drain(end.err);
    if (Clock::now() - start > kLongest) ::kill(child, SIGKILL);  // told by its exit code
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  out.drain(end.out);
  err.drain(end.err);
  end.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  end.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return end;
}

using Contents = std::map<std::string, std::string>;

Contents contents_of(const std::string& folder) {
  Contents contents;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    contents[fs::relative(entry.path(), folder)] = entry.is_regular_file() ? read_text_file(entry.path()) : "";
  }
  return contents;
}

void restore(const std::string& folder, const Contents& contents) {
  for (const auto& entry : fs::directory_iterator(folder)) fs::remove_all(entry.path());
  for (const auto& [name, text] : contents) write_file_atomically(folder + "/" + name, std::string_view(text));
}

struct Verb {
  const char* name;
  std::vector<std::string> arguments;
};

const Verb kVerbs[] = {
    {"compile", {"--from=graph", "new.graph", "-o", "m.so", "--weights=file", "-MD", "--emit=header=m.h,graph=m.graph"}},
    {"compile for ptxas", {"--from=graph", "new.graph", "-o", "m.so", "--weights=file", "--target=cuda"}},
    {"run", {"run", "old.so", "--random", "--device", "cpu", "--save", "."}},
    {"bench", {"bench", "old.so", "--device", "cpu", "--runs", "20", "--warmup", "0"}},
    {"verify", {"verify", "--from=graph", "old.graph", "--device", "cpu"}},
    {"check", {"check", "--from=graph", "old.graph"}},
};

class InTrouble : public testing::Test {
 protected:
  static constexpr const char* kOutputs[] = {"m.so", "m.so.weights", "m.so.d", "m.h", "m.graph", "m.graph.safetensors"};

  void SetUp() override {
    seed_ = static_cast<uint64_t>(number_from("TCC_TROUBLE_SEED", static_cast<int>(std::random_device()() >> 1)));
    random_.seed(seed_);
    runs_ = number_from("TCC_TROUBLE_RUNS", 2);
    folder_.write("old.graph", small_graph());
    std::string other = small_graph();
    other.replace(other.find("0.75"), 4, "8.25");
    folder_.write("new.graph", other);
    const std::string whole = "--from=graph old.graph -o ";
    ASSERT_EQ(run_tcc(whole + "old.so", folder_.path()).exit_code, 0);
    ASSERT_EQ(run_tcc(whole + "m.so --weights=file -MD --emit=header=m.h,graph=m.graph", folder_.path()).exit_code, 0);
    before_ = contents_of(folder_.path());
  }

  double between(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random_); }

  /// `make` gives the trouble of one run, from the time that the verb takes without any.
  template <class Make> void each_verb(const Make& make) {
    SCOPED_TRACE("TCC_TROUBLE_SEED=" + std::to_string(seed_));
    for (const Verb& verb : kVerbs) {
      SCOPED_TRACE(verb.name);
      restore(folder_.path(), before_);
      const End good = run_in_trouble(verb.arguments, folder_.path(), temporary_.path(), {});
      ASSERT_EQ(good.exit_code, 0) << good.err;
      const Contents after = contents_of(folder_.path());
      for (int run = 0; run < runs_; ++run) {
        restore(folder_.path(), before_);
        const Trouble trouble = make(good.seconds);
        judge(run_in_trouble(verb.arguments, folder_.path(), temporary_.path(), trouble), trouble, after, folder_.path(),
              temporary_.path());
        if (HasFailure()) return;
      }
    }
  }

  void judge(const End& end, const Trouble& trouble, const Contents& after, const std::string& folder, const std::string& temporary) {
    const std::string text = "exit code " + std::to_string(end.exit_code) + ", signal " + std::to_string(trouble.signal) + " after " +
                             std::to_string(trouble.delay_seconds) + " s, resource " + std::to_string(trouble.resource) + " at " +
                             std::to_string(trouble.limit) + "\n" + end.err;
    SCOPED_TRACE(text);
    ++counts_[end.exit_code];
    const bool not_begun = end.exit_code == 126 || end.exit_code == 127;  // the system could not start or link the program
    if (!not_begun) { EXPECT_TRUE(end.exit_code == 0 || end.exit_code == (trouble.signal != 0 ? 128 + trouble.signal : 5)); }
    if (end.exit_code == 5) { EXPECT_NE(end.err.find("error: "), std::string::npos); }
    const Contents now = contents_of(folder);
    EXPECT_EQ(contents_of(temporary).size(), 0U) << contents_of(temporary).begin()->first;
    if (end.exit_code == 0) {
      // A rule that is random in nothing gives the same bytes.
      for (const auto& [name, bytes] : now) EXPECT_TRUE(after.contains(name) && after.at(name) == bytes) << name;
      return;
    }
    bool any_new = false, all_new = true;
    for (const auto& [name, bytes] : now) {
      const bool old = before_.contains(name) && before_.at(name) == bytes, whole = after.contains(name) && after.at(name) == bytes;
      EXPECT_TRUE(old || whole) << name << " is neither the old one nor the new one";
      if (std::find(std::begin(kOutputs), std::end(kOutputs), name) == std::end(kOutputs)) continue;
      any_new |= !old;
      all_new &= whole;
    }
    EXPECT_TRUE(!any_new || all_new) << "old and new outputs side by side";
    for (const auto& [name, bytes] : before_) EXPECT_TRUE(now.contains(name)) << name << " is gone";
  }

  void TearDown() override {
    std::string text;
    for (const auto& [code, count] : counts_) text += " " + std::to_string(code) + ": " + std::to_string(count);
    std::printf("exit codes%s\n", text.c_str());
  }

  uint64_t seed_ = 0;
  std::mt19937_64 random_;
  int runs_ = 0;
  Folder folder_, temporary_;
  Contents before_;
  std::map<int, int> counts_;
};

TEST_F(InTrouble, Signals) {
  each_verb([&](double seconds) {
    constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
    return Trouble{.signal = kSignals[random_() % 3], .delay_seconds = between(0, 1.1 * seconds)};
  });
}

TEST_F(InTrouble, LimitOnFileSizes) {
  each_verb([&](double) { return Trouble{.resource = RLIMIT_FSIZE, .limit = static_cast<rlim_t>(between(0, 40000))}; });
}

TEST_F(InTrouble, FewFileHandles) {
  each_verb([&](double) { return Trouble{.resource = RLIMIT_NOFILE, .limit = static_cast<rlim_t>(3 + random_() % 16)}; });
}

TEST_F(InTrouble, LittleMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers reserve terabytes";
#endif
  // The least that the program starts with.
  rlim_t least = rlim_t{16} << 20;
  while (run_in_trouble({"--version"}, folder_.path(), temporary_.path(), {.resource = RLIMIT_AS, .limit = least}).exit_code != 0) {
    least += rlim_t{2} << 20;
    ASSERT_LT(least, rlim_t{2} << 30);
  }
  each_verb(
      [&](double) { return Trouble{.resource = RLIMIT_AS, .limit = least + static_cast<rlim_t>(between(0, 1) * between(0, 1) * 300e6)}; });
}

TEST_F(InTrouble, FullDisk) {
  const Folder mount;
  if (::mount("tmpfs", mount.path().c_str(), "tmpfs", 0, "size=2m") != 0) GTEST_SKIP() << "a file system can't be mounted here";
  SCOPED_TRACE("TCC_TROUBLE_SEED=" + std::to_string(seed_));
  const std::string disk = mount / "work", temporary = mount / "tmp";
  for (const Verb& verb : kVerbs) {
    SCOPED_TRACE(verb.name);
    restore(folder_.path(), before_);
    ASSERT_EQ(run_in_trouble(verb.arguments, folder_.path(), temporary_.path(), {}).exit_code, 0);
    const Contents after = contents_of(folder_.path());
    for (int run = 0; run < runs_ && !HasFailure(); ++run) {
      for (const std::string& path : {disk, temporary, mount / "ballast"}) fs::remove_all(path);
      for (const std::string& path : {disk, temporary}) fs::create_directory(path);
      restore(disk, before_);
      std::error_code error;
      const uintmax_t free = fs::space(mount.path(), error).available;
      const auto left = static_cast<uintmax_t>(between(0, 120000));
      write_file_atomically(mount / "ballast", std::string_view(std::string(free > left ? free - left : 0, 'x')));
      judge(run_in_trouble(verb.arguments, disk, temporary, {}), {}, after, disk, temporary);
    }
  }
  ::umount(mount.path().c_str());
}

}  // namespace
}  // namespace tcc::test
