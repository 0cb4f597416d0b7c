package serve

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestGatewayFlags(t *testing.T) {
	good := front{address: ":6480", endpoint: "https://muster-gateway.muster-system.svc:6480", life: time.Hour}
	with := func(change func(*front)) front {
		f := good
		change(&f)
		return f
	}
	for name, c := range map[string]struct {
		front       front
		place, door string
		says        string
	}{
		"good":            {good, "folder /data", ":8443", ""},
		"none":            {front{address: "0"}, "", "0", ""},
		"no data":         {good, "", ":8443", "there is no data to serve"},
		"no door":         {good, "folder /data", "0", "give --door, too"},
		"in the clear":    {with(func(f *front) { f.endpoint = "http://s3.test" }), "folder /data", ":8443", "such as https://"},
		"a bucket in it":  {with(func(f *front) { f.endpoint = "https://s3.test/bucket" }), "folder /data", ":8443", "such as https://"},
		"keys of a blink": {with(func(f *front) { f.life = time.Second }), "folder /data", ":8443", "a minute or more"},
	} {
		err := c.front.check(c.place, c.door)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	elsewhere := with(func(f *front) { f.endpoint = "https://s3.example.com:443" })
	if hosts := elsewhere.hosts(); !slices.Contains(hosts, "s3.example.com") || !slices.Contains(hosts, "muster-gateway.muster-system.svc") {
		t.Errorf("the certificate is for %v", hosts)
	}
	if hosts := good.hosts(); len(hosts) != 6 {
		t.Errorf("the certificate is for %v", hosts)
	}
}
