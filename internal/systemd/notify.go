package systemd

import (
	"context"
	"fmt"
	"net"
	"strings"
)

// NotifySocket is the variable that has the socket of the service manager.
const NotifySocket = "NOTIFY_SOCKET"

// The messages of a service to the service manager. Source: sd_notify(3).
const (
	Ready    = "READY=1"
	Stopping = "STOPPING=1"
)

// Status is the message that systemctl status shows as the state of the service, as one line.
func Status(text string) string { return "STATUS=" + strings.Join(strings.Fields(text), " ") }

// Notify sends messages to the service manager. socket is the value of NOTIFY_SOCKET; if it is empty,
// no service manager waits for messages, and Notify does nothing.
func Notify(ctx context.Context, socket string, messages ...string) error {
	if socket == "" {
		return nil
	}
	if !strings.HasPrefix(socket, "/") && !strings.HasPrefix(socket, "@") {
		return fmt.Errorf("telling the service manager: NOTIFY_SOCKET is %q, want an absolute path or an abstract name", socket)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unixgram", socket)
	if err != nil {
		return fmt.Errorf("telling the service manager: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte(strings.Join(messages, "\n"))); err != nil {
		return fmt.Errorf("telling the service manager: %w", err)
	}
	return nil
}
