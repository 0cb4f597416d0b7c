//go:build linux

package ondemand

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pair are the two ends of a connection between an agent and a program.
func pair(t *testing.T) (agent, program *net.UnixConn) {
	t.Helper()
	address := &net.UnixAddr{Net: "unixpacket", Name: filepath.Join(t.TempDir(), AttachSocket)}
	listener, err := net.ListenUnix("unixpacket", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	program, err = dial(t.Context(), address.Name)
	if err != nil {
		t.Fatal(err)
	}
	agent, err = listener.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = agent.Close()
		_ = program.Close()
	})
	return agent, program
}

// device is a file that stands for one.
func device(t *testing.T) *os.File {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "device")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}

// TestWhatIsHandedOver: all of it is served, or nothing: where an agent ends between two
// mounts, or has none, members are not started beside empty folders.
func TestWhatIsHandedOver(t *testing.T) {
	first, second := Attached{Commit: "c1", Path: "/train", More: 1}, Attached{Commit: "c2"}
	for name, tt := range map[string]struct {
		sent  []Attached
		wrong string
	}{
		"all":                    {sent: []Attached{first, second}},
		"one of two":             {sent: []Attached{first}, wrong: "handed over 1 mounts of this pod"},
		"none":                   {wrong: "handed over 0 mounts of this pod"},
		"one that is not there":  {sent: []Attached{{Error: "no such device"}}, wrong: "no such device"},
		"one, and not the other": {sent: []Attached{first, {Error: "no such device"}}, wrong: "no such device"},
	} {
		t.Run(name, func(t *testing.T) {
			agent, program := pair(t)
			for _, a := range tt.sent {
				file := device(t)
				if a.Error != "" {
					file = nil
				}
				if err := Send(agent, a, file); err != nil {
					t.Fatal(err)
				}
			}
			_ = agent.Close()
			all, err := hear(t.Context(), program)
			for _, h := range all {
				defer func() { _ = h.device.Close() }()
			}
			if tt.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wrong) {
					t.Errorf("it serves %+v, and says %v", all, err)
				}
				return
			}
			if err != nil || len(all) != 2 || all[0].Attached != first || all[1].Attached != second {
				t.Errorf("it serves %+v, and says %v", all, err)
			}
		})
	}
}

// TestNobodyHandsOver: a program whose pod goes does not wait for its agent any longer.
func TestNobodyHandsOver(t *testing.T) {
	_, program := pair(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := hear(ctx, program)
		ended <- err
	}()
	cancel()
	if err := <-ended; err == nil {
		t.Error("it serves what nobody handed over")
	}
}
