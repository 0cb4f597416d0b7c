package owner

import "testing"

func TestOf(t *testing.T) {
	for _, c := range []struct {
		namespace string
		uid       uint32
		ok        bool
	}{
		{"u-0", 0, true},
		{"u-1000", 1000, true},
		{"u-65533", 65533, true},
		{"u-65535", 65535, true},
		{"u-4294967294", 4294967294, true},
		{"u-65534", 0, false},
		{"u-4294967295", 0, false},
		{"u-4294967296", 0, false},
		{"u-18446744073709551616", 0, false},
		{"u-", 0, false},
		{"u", 0, false},
		{"", 0, false},
		{"u-01", 0, false},
		{"u-00", 0, false},
		{"u-+1", 0, false},
		{"u--1", 0, false},
		{"u-1_000", 0, false},
		{"u-0x10", 0, false},
		{"u- 1", 0, false},
		{"u-1 ", 0, false},
		{"u-1\n", 0, false},
		{"u-١", 0, false},
		{"U-1", 0, false},
		{"xu-1", 0, false},
		{"u-1-2", 0, false},
		{"1000", 0, false},
		{"default", 0, false},
		{"muster-system", 0, false},
	} {
		uid, ok := Of(c.namespace)
		if uid != c.uid || ok != c.ok {
			t.Errorf("Of(%q) = %d, %t; want %d, %t", c.namespace, uid, ok, c.uid, c.ok)
		}
		if ok && Namespace(uid) != c.namespace {
			t.Errorf("Namespace(%d) = %q, want %q", uid, Namespace(uid), c.namespace)
		}
	}
	for _, uid := range []uint32{65534, 4294967295} {
		if got := Namespace(uid); got != "" || User(uid) {
			t.Errorf("Namespace(%d) = %q: that number is no user", uid, got)
		}
	}
}

// FuzzOf: each namespace of a user is that of its uid alone.
func FuzzOf(f *testing.F) {
	f.Add("u-1000")
	f.Add("u-65534")
	f.Fuzz(func(t *testing.T, namespace string) {
		if uid, ok := Of(namespace); ok && Namespace(uid) != namespace {
			t.Errorf("Of(%q) = %d, whose namespace is %q", namespace, uid, Namespace(uid))
		}
	})
}
