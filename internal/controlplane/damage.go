package controlplane

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// etcdTrouble says what to do when etcd cannot read its data: fault is its
// reason, tail the end of the log.
func etcdTrouble(o Options, fault string, tail []byte) error {
	dir := filepath.Join(o.DataDir, "etcd")
	changed := "Nothing was changed there."
	if copies := tornLogs(o.DataDir); len(copies) > 0 {
		changed = fmt.Sprintf("etcd cut off what it could not read; the log as it was is kept as %s.", strings.Join(copies, ", "))
	}
	where := "etcd's data in " + dir
	if file := damagedFile(dir, fault, tail); file != "" {
		where = "etcd's file " + file
	}
	return fmt.Errorf(`%s cannot be used: %s
%s Its files belong together: restore the whole folder from a backup, or begin with an empty cluster, without the jobs, by moving it away (checkpoints, environments and code are elsewhere and stay):
  mv %s %s.broken
The log is %s`, where, fault, changed, dir, dir, o.logFile())
}

// etcdFile is the name of one of etcd's files.
var etcdFile = regexp.MustCompile(`[0-9a-f]{16}-[0-9a-f]{16}\.(?:wal|snap)\b`)

// damagedFile is the file of etcd's data that a fault is about; empty if
// nothing tells.
func damagedFile(dir, fault string, tail []byte) string {
	member := filepath.Join(dir, "member")
	var candidates []string
	if name := etcdFile.FindString(fault); name != "" {
		candidates = append(candidates, filepath.Join(member, "wal", name), filepath.Join(member, "snap", name))
	}
	database := filepath.Join(member, "snap", "db")
	// The database's own code ends the process without a word about the file.
	if strings.Contains(fault, database) || bytes.Contains(tail, []byte("go.etcd.io/bbolt.")) {
		candidates = append(candidates, database)
	}
	for _, file := range candidates {
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	return ""
}

// tornLogs are the copies that etcd makes of a write-ahead log whose end it
// cannot read, before it cuts that off and goes on.
func tornLogs(dataDir string) []string {
	copies, err := filepath.Glob(filepath.Join(dataDir, "etcd", "member", "wal", "*.broken"))
	if err != nil {
		return nil
	}
	return copies
}
