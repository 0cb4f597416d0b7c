package supervise

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

func table(text string) [][]string {
	var rows [][]string
	for line := range strings.Lines(text) {
		rows = append(rows, strings.Split(strings.TrimSpace(line), ":"))
	}
	return rows
}

func TestFindAccount(t *testing.T) {
	users := table("root:x:0:0:root:/root:/bin/sh\njupyter:x:1000:100::/home/jupyter:/bin/sh\nbad:x:many:0::/:\n7:x:1007:1007::/seven:\n")
	groups := table("root:x:0:\nusers:x:100:\nvideo:x:44:jupyter,other\nrender:x:105:other\n")
	for _, c := range []struct {
		named string
		want  account
		fault string
	}{
		{named: "0", want: account{home: "/root"}},
		{named: "jupyter", want: account{uid: 1000, gid: 100, groups: []uint32{44}, home: "/home/jupyter"}},
		{named: "1000", want: account{uid: 1000, gid: 100, groups: []uint32{44}, home: "/home/jupyter"}},
		{named: "jupyter:video", want: account{uid: 1000, gid: 44, groups: []uint32{44}, home: "/home/jupyter"}},
		{named: "jupyter:5", want: account{uid: 1000, gid: 5, groups: []uint32{44}, home: "/home/jupyter"}},
		{named: "1234", want: account{uid: 1234, home: "/"}},
		{named: "1234:1234", want: account{uid: 1234, gid: 1234, home: "/"}},
		{named: "7", want: account{uid: 1007, gid: 1007, home: "/seven"}},
		{named: "nobody-here", fault: `no user "nobody-here"`},
		{named: "jupyter:none", fault: `no group "none"`},
		{named: "-1", fault: `no user "-1"`},
		{named: "bad", fault: `number "many"`},
	} {
		t.Run(c.named, func(t *testing.T) {
			got, err := findAccount(c.named, users, groups)
			if c.fault != "" {
				if err == nil || err.reason != contract.ReasonUser || !strings.Contains(err.message, c.fault) {
					t.Fatalf("got %+v, want a fault with %q", err, c.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err.message)
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(account{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}
