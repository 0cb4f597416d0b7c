package visibility

import "testing"

func logins(uid uint32) string { return map[uint32]string{1001: "ann", 1002: "eve"}[uid] }

// TestRule has each kind of caller look at the namespace of eve.
func TestRule(t *testing.T) {
	for name, c := range map[string]struct {
		rule          Rule
		logins        Logins
		sees          bool
		person, queue string
		user, command string
	}{
		"nobody in particular":         {Rule{}, logins, false, Others, "", "somebody", "a process"},
		"a tenant of a cluster":        {Rule{Own: "u-1001"}, nil, false, Others, "", "somebody", "a process"},
		"another user of the machine":  {Rule{Own: "u-1001", Login: "ann", ShowUsers: true}, logins, false, "eve", "eve", "eve", ""},
		"eve":                          {Rule{Own: "u-1002", Login: "eve", ShowUsers: true}, logins, true, "eve", "eve", "eve", "train.py"},
		"a user without a login":       {Rule{Own: "u-1001", ShowUsers: true}, logins, false, "eve", "eve", "eve", ""},
		"an administrator":             {Rule{Own: "u-0", Administrator: true, ShowUsers: true}, logins, true, "eve", "eve", "eve", "train.py"},
		"an administrator, no logins":  {Everything(), nil, true, "u-1002", "", "eve", "train.py"},
		"another user, without logins": {Rule{Own: "u-1001", ShowUsers: true}, nil, false, Others, "", "eve", ""},
	} {
		t.Run(name, func(t *testing.T) {
			user, command := c.rule.Process("eve", "train.py")
			if got := c.rule.Sees("u-1002"); got != c.sees {
				t.Errorf("sees: %v", got)
			}
			if got := c.rule.Person("u-1002", c.logins); got != c.person {
				t.Errorf("person: %q, want %q", got, c.person)
			}
			if got := c.rule.Queue("u-1002", c.logins); got != c.queue {
				t.Errorf("queue: %q, want %q", got, c.queue)
			}
			if got := c.rule.Queue("vision", c.logins); got != "" {
				t.Errorf("a queue of no user: %q", got)
			}
			if user != c.user || command != c.command {
				t.Errorf("process: %q %q, want %q %q", user, command, c.user, c.command)
			}
		})
	}
	if (Rule{}).Sees("") {
		t.Error("a rule without an own namespace shows objects without a namespace")
	}
}

func TestLogins(t *testing.T) {
	for name, want := range map[string]string{"u-1001": "ann", "u-01001": "", "u-": "", "u--1": "", "u-4294967296": "", "vision": "", "u-1001x": ""} {
		if got, is := Logins(logins).OfNamespace(name); got != want || is != (want != "") {
			t.Errorf("%s: %q %v, want %q", name, got, is, want)
		}
	}
	for name, want := range map[string]string{"unix:1002": "eve", "unix:x": "unix:x", "ada@box": "ada@box", "unix:0042": "unix:0042"} {
		if got := Logins(logins).OfUser(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := Logins(nil).OfUser("unix:1002"); got != "unix:1002" {
		t.Errorf("without logins: %q", got)
	}
}
