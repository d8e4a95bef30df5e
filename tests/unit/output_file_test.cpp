#include "io/output_file.hpp"

#include "tests/support/case_name.hpp"
#include "tests/support/files.hpp"
#include "tests/support/thrown.hpp"

#include <shardsolve/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

namespace shardsolve::io {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::expect_error;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::read_file;
using ::testing::SizeIs;
using ::testing::StartsWith;
using testing::TemporaryDirectory;
using testing::write_file;

namespace fs = std::filesystem;

void write(OutputFile& file, const std::string& text) {
  file.pwrite_all(text.data(), static_cast<std::int64_t>(text.size()), 0);
}

/// Runs `work` in a process of its own.
::pid_t start_child(const std::function<void()>& work) {
  std::fflush(nullptr);
  const ::pid_t child = ::fork();
  if (child != 0) {
    return child;
  }
  try {
    work();
    ::_exit(0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    ::_exit(1);
  }
}

/// Kind and message of the Error that `work` throws in a process of its own, or "" if it throws
/// none.
std::string error_of_child(const std::function<void()>& work) {
  int ends[2];
  if (::pipe(ends) != 0) {
    return "no pipe";
  }
  const ::pid_t child = start_child([&] {
    try {
      work();
    } catch (const Error& error) {
      const std::string text = std::string(name(error.kind())) + ": " + error.what();
      ::_exit(::write(ends[1], text.data(), text.size()) < 0 ? 1 : 0);
    }
  });
  ::close(ends[1]);
  char text[4096];
  const ::ssize_t size = ::read(ends[0], text, sizeof(text));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  return {text, size > 0 ? static_cast<std::size_t>(size) : 0};
}

// ---- both kinds of temporary file, with and without a target to replace ------------------------

struct Case {
  std::string name;
  OutputFile::Temporary temporary;
  bool overwrite;

  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
};

class OutputFileKinds : public ::testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<OutputFile> open() const {
    return std::make_unique<OutputFile>(path_, GetParam().overwrite, GetParam().temporary);
  }
  /// Some file systems have no O_TMPFILE, the overlay of a container under an older kernel for one.
  bool leaves_hidden_file() const {
    const FileDescriptor unnamed(::open(directory_.path().c_str(), O_TMPFILE | O_WRONLY, 0600));
    return GetParam().temporary == OutputFile::Temporary::named || !unnamed.is_open();
  }

  /// Nothing but perhaps the hidden file.
  void expect_no_target() const {
    EXPECT_FALSE(fs::exists(path_));
    EXPECT_THAT(directory_.names(), Each(StartsWith(".shardsolve-")));
    EXPECT_EQ(directory_.names().size(), leaves_hidden_file() ? 1U : 0U);
  }

  TemporaryDirectory directory_;
  std::string path_ = directory_ / "x.npy";
};

INSTANTIATE_TEST_SUITE_P(
    Kinds, OutputFileKinds,
    ::testing::Values(Case{"unnamed_new", OutputFile::Temporary::unnamed, false},
                      Case{"unnamed_over", OutputFile::Temporary::unnamed, true},
                      Case{"named_new", OutputFile::Temporary::named, false},
                      Case{"named_over", OutputFile::Temporary::named, true}),
    testing::CaseName());

TEST_P(OutputFileKinds, Committed_IsThereCompleteAndAlone) {
  const auto file = open();
  file->reserve(10);
  write(*file, "0123456789");
  expect_no_target();
  file->commit();
  EXPECT_EQ(read_file(path_), "0123456789");
  EXPECT_THAT(directory_.names(), ElementsAre("x.npy"));
}

TEST_P(OutputFileKinds, WrittenOutOfOrder_IsInPlace) {
  const auto file = open();
  file->pwrite_all("56789", 5, 5);
  file->pwrite_all("01234", 5, 0);
  file->commit();
  EXPECT_EQ(read_file(path_), "0123456789");
}

TEST_P(OutputFileKinds, LastCheckThatThrows_LeavesNothing) {
  {
    const auto file = open();
    write(*file, "all of it");
    expect_error([&] { file->commit([] { throw Error(ErrorKind::cancelled, "interrupted"); }); },
                 ErrorKind::cancelled, {"interrupted"});
    expect_no_target();
  }
  EXPECT_THAT(directory_.names(), IsEmpty());
}

TEST_P(OutputFileKinds, DestroyedBeforeCommit_LeavesNothing) {
  {
    const auto file = open();
    file->reserve(1000);
    write(*file, "half");
  }
  EXPECT_THAT(directory_.names(), IsEmpty());
}

TEST_P(OutputFileKinds, Committed_HasThePermissionsOfTheUmask) {
  const ::mode_t before = ::umask(027);
  open()->commit();
  ::umask(before);
  struct stat status{};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0640U);
}

TEST_P(OutputFileKinds, TargetThatAppearsMeanwhile_IsReplacedOnlyIfAskedFor) {
  {
    const auto file = open();
    write(*file, "ours");
    write_file(path_, "theirs");
    if (GetParam().overwrite) {
      file->commit();
    } else {
      expect_error([&] { file->commit(); }, ErrorKind::invalid_argument,
                   {path_, "exists already", "'overwrite'"});
    }
  }
  EXPECT_EQ(read_file(path_), GetParam().overwrite ? "ours" : "theirs");
  EXPECT_THAT(directory_.names(), ElementsAre("x.npy"));
}

TEST_P(OutputFileKinds, ExistingTarget_IsReplacedOnlyIfAskedFor) {
  write_file(path_, "theirs");
  if (!GetParam().overwrite) {
    expect_error([&] { open(); }, ErrorKind::invalid_argument,
                 {path_, "exists already", "another name", "'overwrite'"});
  } else {
    const auto file = open();
    write(*file, "ours");
    EXPECT_EQ(read_file(path_), "theirs");
    file->commit();
    EXPECT_EQ(read_file(path_), "ours");
  }
  EXPECT_THAT(directory_.names(), ElementsAre("x.npy"));
}

TEST_P(OutputFileKinds, Retracted_IsAsItWasBefore) {
  for (const bool there_before : {false, true}) {
    if (there_before && !GetParam().overwrite) {
      continue;
    }
    if (there_before) {
      write_file(path_, "theirs");
    }
    {
      const auto file = open();
      write(*file, "ours");
      file->sync();
      file->publish();
      EXPECT_EQ(read_file(path_), "ours");
      file->retract();
    }
    EXPECT_THAT(directory_.names(), SizeIs(there_before ? 1 : 0));
    EXPECT_EQ(there_before ? read_file(path_) : "", there_before ? "theirs" : "");
  }
}

TEST_P(OutputFileKinds, DirectoryThatAppearsMeanwhile_IsLeftAlone) {
  {
    const auto file = open();
    write(*file, "ours");
    fs::create_directory(path_);
    EXPECT_THROW(file->commit(), Error);
  }
  EXPECT_TRUE(fs::is_directory(path_));
  EXPECT_THAT(directory_.names(), ElementsAre("x.npy"));
}

TEST_P(OutputFileKinds, SymbolicLink_StaysALink) {
  fs::create_directory(directory_.path() / "elsewhere");
  const std::string target = directory_ / "elsewhere/target.npy";
  write_file(target, "theirs");
  fs::create_symlink("elsewhere/target.npy", path_);
  if (!GetParam().overwrite) {
    expect_error([&] { open(); }, ErrorKind::invalid_argument, {path_, "exists already"});
  } else {
    const auto file = open();
    write(*file, "ours");
    file->commit();
  }
  EXPECT_TRUE(fs::is_symlink(path_));
  EXPECT_EQ(read_file(target), GetParam().overwrite ? "ours" : "theirs");
}

TEST_P(OutputFileKinds, NoSpace_ThrowsTheFigures) {
  const auto within_limit = [&](const std::function<void(OutputFile&)>& use) {
    return error_of_child([&] {
      ::signal(SIGXFSZ, SIG_IGN);  // NOLINT(bugprone-unused-return-value)
      const auto file = open();
      const struct rlimit limit = {3'000'000, RLIM_INFINITY};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      use(*file);
    });
  };
  const std::string reserved = within_limit([](OutputFile& file) { file.reserve(5'000'000); });
  const std::string written = within_limit([](OutputFile& file) {
    const std::string block(1'000'000, 'x');
    for (int i = 0; i < 5; ++i) {
      file.pwrite_all(block.data(), 1'000'000, i * 1'000'000);
    }
  });
  for (const std::string& message : {reserved, written}) {
    EXPECT_THAT(message, StartsWith("io: "));
    EXPECT_THAT(message, HasSubstr(path_));
    EXPECT_THAT(message, HasSubstr("files may have 3.0 MB (ulimit -f)"));
  }
  EXPECT_THAT(reserved, HasSubstr("5.0 MB are needed"));
  EXPECT_THAT(written, HasSubstr("4.0 MB are needed"));
  EXPECT_FALSE(fs::exists(path_));
}

TEST_P(OutputFileKinds, ReadOnlyDirectory_ThrowsIo) {
  // Of no consequence to root, so the child becomes somebody else.
  ::chmod(directory_.path().c_str(), 0555);
  const std::string message = error_of_child([&] {
    if (::geteuid() == 0 && ::setuid(65534) != 0) {
      std::perror("setuid");
      ::_exit(2);
    }
    open();
  });
  ::chmod(directory_.path().c_str(), 0755);
  EXPECT_THAT(message, StartsWith("io: "));
  EXPECT_THAT(message, HasSubstr("Permission denied; choose another directory"));
  EXPECT_FALSE(fs::exists(path_));
}

// ---- sudden death ------------------------------------------------------------------------------

TEST_P(OutputFileKinds, KilledBeforeCommit_LeavesNothingUnderTheName) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const ::pid_t child = start_child([&] {
    const auto file = open();
    file->reserve(1'000'000);
    write(*file, "half");
    if (::write(ready[1], "!", 1) == 1) {
      ::pause();
    }
  });
  char signal = 0;
  EXPECT_EQ(::read(ready[0], &signal, 1), 1);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
  expect_no_target();
}

TEST_P(OutputFileKinds, KilledAtAnyMoment_LeavesACompleteFileOrNone) {
  constexpr std::size_t size = 300'000;
  for (int delay = 0; delay < 12; ++delay) {
    const ::pid_t child = start_child([&] {
      for (char c = 'a';; c = c == 'z' ? 'a' : static_cast<char>(c + 1)) {
        const auto file = open();
        write(*file, std::string(size, c));
        file->commit();
        if (!GetParam().overwrite) {
          fs::remove(path_);
        }
      }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(2 * delay));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    if (fs::exists(path_)) {
      const std::string found = read_file(path_);
      ASSERT_FALSE(found.empty());
      EXPECT_EQ(found, std::string(size, found.front()));
      fs::remove(path_);
    }
  }
}

// ---- targets that cannot be written ------------------------------------------------------------

TEST(OutputFile, ImpossibleTarget_IsRefusedAtOnce) {
  const TemporaryDirectory directory;
  write_file(directory / "file", "");
  fs::create_symlink("nowhere", directory / "link");
  ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
  struct Target {
    std::string path;
    ErrorKind kind;
    std::vector<std::string> words;
  };
  const Target targets[] = {
      {"", ErrorKind::invalid_argument, {"empty"}},
      {directory.path().string(), ErrorKind::io, {"Is a directory"}},
      {directory / "new/", ErrorKind::io, {"Is a directory"}},
      {directory / "missing/x.npy", ErrorKind::io, {"missing' does not exist", "create it first"}},
      {"/proc/x.npy", ErrorKind::io, {"no file can be created in the directory '/proc'"}},
      {directory / "file/x.npy", ErrorKind::io, {"Not a directory"}},
      {directory / "pipe", ErrorKind::io, {"not a regular file"}},
      {directory / "link", ErrorKind::io, {"symbolic link that points to nothing"}},
      {directory / std::string(300, 'x'), ErrorKind::io, {"File name too long"}},
  };
  for (const Target& target : targets) {
    SCOPED_TRACE(target.path);
    for (const bool overwrite : {false, true}) {
      expect_error([&] { OutputFile(target.path, overwrite); }, target.kind, target.words);
      expect_error([&] { OutputFile(target.path, overwrite); }, target.kind, {target.path});
    }
  }
  EXPECT_THAT(directory.names(), ::testing::UnorderedElementsAre("file", "link", "pipe"));
}

TEST(OutputFile, LargestNameAllowed_IsWritten) {
  const TemporaryDirectory directory;
  const std::string name(255, 'x');
  for (const auto temporary : {OutputFile::Temporary::unnamed, OutputFile::Temporary::named}) {
    OutputFile(directory / name, true, temporary).commit();
    EXPECT_THAT(directory.names(), ElementsAre(name));
  }
}

TEST(OutputFile, MoreThanTheDiskHolds_IsRefusedWithTheFigures) {
  const TemporaryDirectory directory;
  OutputFile file(directory / "x.npy");
  const auto free = static_cast<std::int64_t>(fs::space(directory.path()).free);
  expect_error([&] { file.reserve(2 * free); }, ErrorKind::io,
               {file.path(), "are needed", "make room"});
}

TEST(OutputFile, RelativePath_IsWrittenInTheWorkingDirectory) {
  const TemporaryDirectory directory;
  const fs::path before = fs::current_path();
  fs::current_path(directory.path());
  OutputFile file("x.npy");
  // The directory is held open: it does not matter where the process goes meanwhile.
  fs::current_path(before);
  file.commit();
  EXPECT_THAT(directory.names(), ElementsAre("x.npy"));
}

TEST(SameFile, Paths_AreTheSameWhereTheyLeadToOneFile) {
  const TemporaryDirectory directory;
  const std::string a = directory / "a";
  write_file(a, "");
  write_file(directory / "b", "");
  fs::create_symlink("a", directory / "link");
  fs::create_hard_link(a, directory / "hard");
  EXPECT_TRUE(same_file(a, a));
  EXPECT_TRUE(same_file(a, directory / "./a"));
  EXPECT_TRUE(same_file(a, directory / "link"));
  EXPECT_TRUE(same_file(directory / "hard", a));
  EXPECT_FALSE(same_file(a, directory / "b"));
  EXPECT_FALSE(same_file(a, directory / "missing"));
  EXPECT_FALSE(same_file(directory / "missing", directory / "missing"));
}

}  // namespace
}  // namespace shardsolve::io
