package door

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/door/visitor"
)

// ring remembers who asked for keys.
type ring struct {
	mu      sync.Mutex
	made    []Caller
	lives   []time.Duration
	removed []string
}

func (r *ring) Make(_ context.Context, who Caller, life time.Duration) (any, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made, r.lives = append(r.made, who), append(r.lives, life)
	return map[string]string{"accessKeyID": "MU1"}, nil
}

func (r *ring) List(_ context.Context, namespace string) (any, error) {
	return []string{"a key of " + namespace}, nil
}

func (r *ring) Remove(_ context.Context, who Caller, key string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removed = append(r.removed, who.User+" "+key)
	return nil
}

// dated is a token of ada's account for audiences, which the API server knows.
func dated(t *testing.T, issued time.Time, audiences ...string) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"aud": audiences, "iat": issued.Unix()})
	if err != nil {
		t.Fatal(err)
	}
	made := "e30." + base64.RawURLEncoding.EncodeToString(text) + ".c2ln"
	tokens[made] = status("system:serviceaccount:ada:muster-door", ours, nil)
	t.Cleanup(func() { delete(tokens, made) })
	return made
}

// TestKeys are made for who the API server says is asking, if it has said so since this
// replica began and not long ago.
func TestKeys(t *testing.T) {
	keys := &ring{}
	h := open(t, false, func(o *Options) { o.Keys = keys })
	now := time.Now()
	user := v1alpha1.DoorUser + "ada@example.com"
	young := dated(t, now.Add(time.Second), "muster", user, v1alpha1.DoorGroup+"vision", v1alpha1.DoorGroup+"oidc:all staff")
	var made map[string]string
	ada := h.as(young)
	h.must(ada.MakeKey(t.Context(), "ada", time.Hour, &made))
	var all []string
	h.must(ada.Ask(t.Context(), "ada", "/keys", nil, &all))
	h.must(ada.RemoveKey(t.Context(), "ada", "MU1"))
	if made["accessKeyID"] != "MU1" || !cmp.Equal(all, []string{"a key of ada"}) || !cmp.Equal(keys.removed, []string{"ada@example.com MU1"}) {
		t.Errorf("%v, %v, %v", made, all, keys.removed)
	}
	want := Caller{Namespace: "ada", User: "ada@example.com", Groups: []string{"vision", "oidc:all staff"}, Issued: time.Unix(now.Add(time.Second).Unix(), 0)}
	if diff := cmp.Diff([]Caller{want}, keys.made); diff != "" || keys.lives[0] != time.Hour {
		t.Errorf("%s %v", diff, keys.lives)
	}
	for name, c := range map[string]struct {
		token, namespace string
		status           int
		says             string
	}{
		"a token from before":  {dated(t, now.Add(-time.Minute), "muster", user, v1alpha1.DoorGroup+"system:masters"), "ada", http.StatusUnauthorized, "too long ago"},
		"without a name":       {dated(t, now.Add(time.Second), "muster", v1alpha1.DoorGroup+"vision"), "ada", http.StatusBadRequest, "does not say who you are"},
		"with two names":       {dated(t, now.Add(time.Second), "muster", user, v1alpha1.DoorUser+"eve"), "ada", http.StatusBadRequest, "does not say who you are"},
		"another's namespace":  {young, "bob", http.StatusForbidden, "speaks for namespace ada"},
		"an agent":             {"node", "ada", http.StatusForbidden, "speaks for no namespace"},
		"no token that counts": {"nobody", "ada", http.StatusUnauthorized, "audience"},
	} {
		who := h.as(c.token)
		for did, err := range map[string]error{"make": who.MakeKey(t.Context(), c.namespace, 0, &made), "remove": who.RemoveKey(t.Context(), c.namespace, "MU1")} {
			if !visitor.Is(err, c.status) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s, %s: %v, want %d %q", name, did, err, c.status, c.says)
			}
		}
	}
	if len(keys.made) != 1 || len(keys.removed) != 1 {
		t.Errorf("%d were made and %d removed", len(keys.made), len(keys.removed))
	}
}

// TestOldTokens are believed for a while.
func TestOldTokens(t *testing.T) {
	began := time.Now()
	for name, c := range map[string]struct {
		issued, now time.Duration
		want        bool
	}{
		"as it began":   {0, 0, true},
		"young":         {time.Hour, time.Hour + time.Minute, true},
		"old":           {time.Hour, time.Hour + freshness + time.Second, false},
		"from before":   {-2 * time.Second, 0, false},
		"of the future": {time.Minute, 0, true},
	} {
		d := &Door{opts: Options{Now: func() time.Time { return began.Add(c.now) }}, began: began}
		if err := d.known(Caller{User: "ada", Issued: began.Add(c.issued)}); (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNoGateway(t *testing.T) {
	h := open(t, false)
	err := h.as(dated(t, time.Now().Add(time.Second), "muster", v1alpha1.DoorUser+"ada")).MakeKey(t.Context(), "ada", 0, nil)
	if !visitor.Is(err, http.StatusNotFound) || !strings.Contains(err.Error(), "data.gateway.enabled=true") {
		t.Error(err)
	}
}
