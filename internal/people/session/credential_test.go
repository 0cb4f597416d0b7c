package session

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestCredential: a session keeps its credential; a restart keeps the renewal alone, for the cookie alone.
func TestCredential(t *testing.T) {
	file := File{Path: filepath.Join(t.TempDir(), "sessions.json")}
	open := func() *Table {
		table, err := Open(t.Context(), Options{Store: file, Scopes: []string{"read"}})
		if err != nil {
			t.Fatal(err)
		}
		return table
	}
	table := open()
	enter := func(renewal string) (Opened, Grant) {
		link, err := table.LinkWith(Caller{User: "oidc:ann"}, "https://a.example.org", Credential{Current: "now", Renewal: renewal})
		if err != nil {
			t.Fatal(err)
		}
		opened, err := table.Exchange(t.Context(), Exchange{Link: link.Reveal(), Origin: "https://a.example.org", User: "oidc:ann"})
		if err != nil {
			t.Fatal(err)
		}
		grant, err := table.Session(opened.Cookie.Reveal(), "https://a.example.org")
		if err != nil {
			t.Fatal(err)
		}
		return opened, grant
	}
	opened, grant := enter("later")
	_, long := enter(strings.Repeat("x", renewalBytes+1))
	if got := grant.Credential(); got != (Credential{Current: "now", Renewal: "later"}) {
		t.Errorf("the session has %q and %q", got.Current, got.Renewal)
	}
	grant.Renew(Credential{Current: "second", Renewal: "still later"})
	if got := grant.Credential(); got.Current != "second" {
		t.Errorf("after a renewal: %q", got.Current)
	}
	if got := fmt.Sprintf("%v %+v %s %q", grant.Credential(), grant.Credential(), grant.Credential(), grant.Credential()); strings.Contains(got, "second") {
		t.Errorf("it prints as %s", got)
	}
	if err := table.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := file.Load(t.Context())
	if err != nil || strings.Contains(string(text), "later") || !strings.Contains(string(text), "sealed") {
		t.Errorf("the store has %s (%v)", text, err)
	}

	table = open()
	grant, err = table.Session(opened.Cookie.Reveal(), "https://a.example.org")
	if err != nil {
		t.Fatal(err)
	}
	if got := grant.Credential(); got != (Credential{Renewal: "still later"}) {
		t.Errorf("after a restart: %q and %q", got.Current, got.Renewal)
	}
	sealed := table.records[grant.ID].Sealed
	if unseal(sealed, "muster-session.another", grant.ID) != "" || unseal(sealed, opened.Cookie.Reveal(), long.ID) != "" || unseal(sealed[:5], opened.Cookie.Reveal(), grant.ID) != "" {
		t.Error("another cookie or session opens it")
	}
	if len(table.records[long.ID].Sealed) > 0 {
		t.Error("a renewal that is too long is stored")
	}
	if err := table.Revoke(t.Context(), "", grant.ID); err != nil || grant.Credential() != (Credential{}) {
		t.Errorf("after the end: %q (%v)", grant.Credential().Renewal, err)
	}
}
