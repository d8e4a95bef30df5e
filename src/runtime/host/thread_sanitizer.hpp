/// What ThreadSanitizer is told; nothing in other builds.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define SHARDSOLVE_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SHARDSOLVE_THREAD_SANITIZER 1
#endif
#endif

#ifdef SHARDSOLVE_THREAD_SANITIZER
extern "C" {
void __tsan_read_range(void* address, unsigned long size);
void __tsan_write_range(void* address, unsigned long size);
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

namespace shardsolve::runtime::host {

/// Memory that this thread touches meanwhile is not looked at.
class UnseenMemory {
 public:
#ifdef SHARDSOLVE_THREAD_SANITIZER
  UnseenMemory() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~UnseenMemory() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
#else
  UnseenMemory() {}   // NOLINT(modernize-use-equals-default): a variable of it is not unused
  ~UnseenMemory() {}  // NOLINT(modernize-use-equals-default)
#endif
  UnseenMemory(const UnseenMemory&) = delete;
  UnseenMemory& operator=(const UnseenMemory&) = delete;
};

}  // namespace shardsolve::runtime::host
