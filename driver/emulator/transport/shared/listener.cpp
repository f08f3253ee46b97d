// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/shared/listener.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "driver/base/backoff.h"

namespace neuron::transport {
namespace {

constexpr int kBacklog = 128;
constexpr int kLockAttempts = 500;  // a millisecond apart

bool fill_address(const std::string& path, const char* what, sockaddr_un& address,
                  std::string& error) {
  address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path[0] == '@' || path.size() >= sizeof(address.sun_path)) {
    error = std::string("the socket of the ") + what + " cannot be at \"" + path + "\": " +
            (path.empty()     ? "the path is empty"
             : path[0] == '@' ? "an abstract name has no owner and no permissions; give a path"
                              : "a socket's path has at most 107 characters");
    return false;
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return true;
}

// 0: somebody listens; else the errno value of the attempt.
int try_connect(const sockaddr_un& address) {
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return errno;
  const int result =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno;
  ::close(fd);
  // A full backlog belongs to a process that lives.
  return result == EAGAIN ? 0 : result;
}

// The folder of the path, locked: of two daemons that start at once one looks after the other.
int lock_folder(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // A daemon holds the lock for a few system calls. One that does not get it goes on without: then
  // two daemons that start at the same moment may both take the path, and the later one has it.
  for (int i = 0; fd >= 0 && i < kLockAttempts && ::flock(fd, LOCK_EX | LOCK_NB) != 0; ++i) {
    base::sleep_for(std::chrono::milliseconds(1));
  }
  return fd;
}

}  // namespace

std::unique_ptr<Listener> Listener::open(const std::string& path, const char* what,
                                         std::string& error) {
  sockaddr_un address;
  if (!fill_address(path, what, address, error)) return nullptr;
  const int folder = lock_folder(path);
  const auto give_up = [&](const std::string& reason, int fd) -> std::unique_ptr<Listener> {
    error = std::string("the socket of the ") + what + " at " + path + " " + reason;
    if (fd >= 0) ::close(fd);
    if (folder >= 0) ::close(folder);
    return nullptr;
  };
  struct stat status = {};
  if (::lstat(path.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode)) {
      return give_up("cannot be made: another kind of file is there; move it away", -1);
    }
    const int result = try_connect(address);
    if (result == 0 || result == EPROTOTYPE) {
      return give_up("is served already; stop that daemon or choose another path", -1);
    }
    // Any other error does not tell whether a daemon listens.
    if (result != ECONNREFUSED && result != ENOENT) {
      return give_up(std::string("is there, and whether a daemon serves it cannot be found out: ") +
                         std::strerror(result),
                     -1);
    }
    // Nobody listens: the file of a daemon that was killed.
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
      return give_up(std::string("is stale and cannot be removed: ") + std::strerror(errno), -1);
    }
  }
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return give_up(std::string("cannot be made: ") + std::strerror(errno), -1);
  // A process that may write to the socket may use every device of the daemon: its user alone.
  const mode_t before = ::umask(0177);
  const int bound = ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const int reason = errno;
  ::umask(before);
  if (bound != 0) return give_up(std::string("cannot be made: ") + std::strerror(reason), fd);
  std::unique_ptr<Listener> listener(new Listener(fd, path));
  listener->owns_path_ = true;
  if (::lstat(path.c_str(), &status) == 0) {
    listener->device_ = status.st_dev;
    listener->inode_ = status.st_ino;
  }
  if (::listen(fd, kBacklog) != 0) {
    return give_up(std::string("cannot listen: ") + std::strerror(errno), -1);
  }
  if (folder >= 0) ::close(folder);
  return listener;
}

std::unique_ptr<Listener> Listener::adopt(int fd, const char* what, std::string& error) {
  int type = 0;
  int listening = 0;
  socklen_t size = sizeof(type);
  sockaddr_un address = {};
  socklen_t length = sizeof(address);
  if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_SEQPACKET ||
      ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || listening == 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      address.sun_family != AF_UNIX) {
    error = std::string("descriptor ") + std::to_string(fd) + " was passed for the " + what +
            " and is no listening unix socket of type SOCK_SEQPACKET; use "
            "ListenSequentialPacket= in the socket unit";
    return nullptr;
  }
  (void)::fcntl(fd, F_SETFD, FD_CLOEXEC);
  return std::unique_ptr<Listener>(new Listener(fd, address.sun_path));
}

Listener::~Listener() {
  if (owns_path_) {
    struct stat status = {};
    if (::lstat(path_.c_str(), &status) == 0 && status.st_dev == device_ &&
        status.st_ino == inode_) {
      ::unlink(path_.c_str());
    }
  }
  if (fd_ >= 0) ::close(fd_);
}

int Listener::release() {
  const int fd = fd_;
  fd_ = -1;
  return fd;
}

}  // namespace neuron::transport
