#include "tcc/support/suggest.h"

#include <gtest/gtest.h>

namespace tcc {
namespace {

const std::vector<std::string> kFlags = {"--device", "--diagnostics", "--emit", "--shapes", "--seed", "-o"};

TEST(Suggest, MisspeltWords) {
  EXPECT_EQ(nearest("--devcie", kFlags), "--device");
  EXPECT_EQ(nearest("--diagnostic", kFlags), "--diagnostics");
  EXPECT_EQ(nearest("--Shape", kFlags), "--shapes");
  EXPECT_EQ(nearest("AdamW", std::vector<std::string>{"adam", "adamw", "sgd"}), "adamw");
  EXPECT_EQ(nearest("batch_norm", std::vector<std::string>{"batch-norm"}), "batch-norm");
}

// One edit of any kind at any place of a word of three letters and more is understood.
TEST(Suggest, EveryEditOfEveryWord) {
  const std::vector<std::string> words = {"run", "bench", "verify", "check", "inspect", "explain", "help"};
  for (const std::string& word : words) {
    for (size_t at = 0; at < word.size(); ++at) {
      EXPECT_EQ(nearest(word.substr(0, at) + "_" + word.substr(at), words), word);
      EXPECT_EQ(nearest(word.substr(0, at) + "_" + word.substr(at + 1), words), word);
      EXPECT_EQ(nearest(word.substr(0, at) + word.substr(at + 1), words), word);
      if (at + 1 < word.size() && word[at] != word[at + 1]) {
        std::string swapped = word;
        std::swap(swapped[at], swapped[at + 1]);
        EXPECT_EQ(nearest(swapped, words), word);
      }
    }
  }
}

TEST(Suggest, NothingIsNear) {
  EXPECT_EQ(nearest("--frobnicate", kFlags), "");
  EXPECT_EQ(nearest("", kFlags), "");
  EXPECT_EQ(nearest("x", std::vector<std::string>{"y", "z"}), "");  // nothing of the word is left
  EXPECT_EQ(nearest("-o", kFlags), "");                             // it is one of them
  EXPECT_EQ(nearest(std::string(100000, 'a'), std::vector<std::string>{std::string(100000, 'b')}), "");
}

TEST(Suggest, HelpLines) {
  const std::vector<std::string> primitives = {"bind", "split", "tile"};
  EXPECT_EQ(suggest("splitt", "primitives", primitives), "did you mean `split`? primitives are `bind`, `split`, `tile`");
  EXPECT_EQ(suggest("no", "primitives", primitives), "primitives are `bind`, `split`, `tile`");
  EXPECT_EQ(suggest("no", "primitives", {}), "");
  std::vector<std::string> many;
  for (int i = 0; i < 40; ++i) many.push_back("input" + std::to_string(i));
  EXPECT_EQ(suggest("inputt7", "inputs", many), "did you mean `input7`?");
}

}  // namespace
}  // namespace tcc
