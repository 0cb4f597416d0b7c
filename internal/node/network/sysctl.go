package network

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// setSysctl writes a network setting of the calling thread's namespace, such
// as ipv4/conf/muster0/forwarding, unless it has the value already: where
// /proc/sys is read-only that may be enough.
func setSysctl(name, value string) error {
	path := filepath.Join("/proc/sys/net", name)
	if now, err := getSysctl(name); err == nil && now == value {
		return nil
	}
	if err := os.WriteFile(path, []byte(value), 0o644); err != nil {
		return fmt.Errorf("setting net/%s to %s: %w", name, value, err)
	}
	return nil
}

func getSysctl(name string) (string, error) {
	raw, err := os.ReadFile(filepath.Join("/proc/sys/net", name))
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(raw)), nil
}

// withoutIPv6 switches IPv6 off on an interface of the calling thread's
// namespace; a kernel without IPv6 has nothing to switch off.
func withoutIPv6(link string) error {
	err := setSysctl("ipv6/conf/"+link+"/disable_ipv6", "1")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
