package httpapi

import (
	"net"
	"os"
	"syscall"
)

// stopListening refuses whoever connects from now on, and returns the connections that
// the kernel has made and nobody has accepted: a listener that is just closed resets
// them, whatever their clients have asked already.
func stopListening(l net.Listener) (waiting []net.Conn) {
	socket, ok := l.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil
	}
	raw.Control(func(listening uintptr) {
		for {
			fd, _, err := syscall.Accept4(int(listening), syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
			if err == syscall.EINTR || err == syscall.ECONNABORTED {
				continue
			}
			if err != nil {
				break
			}
			if c, err := connOf(fd); err == nil {
				waiting = append(waiting, c)
			}
		}
		syscall.Shutdown(int(listening), syscall.SHUT_RD) // Close waits for who is in Accept
	})
	return waiting
}

func connOf(fd int) (net.Conn, error) {
	file := os.NewFile(uintptr(fd), "")
	defer file.Close() // the connection has a duplicate
	return net.FileConn(file)
}
