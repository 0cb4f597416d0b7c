package egress

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for address, want := range map[string][2]string{
		"s3://bucket":             {"bucket", ""},
		"s3://bucket/":            {"bucket", ""},
		"s3://bucket/some/folder": {"bucket", "some/folder"},
		"s3://bucket/folder/":     {"bucket", "folder"},
	} {
		bucket, prefix, err := Parse(address)
		if err != nil || [2]string{bucket, prefix} != want {
			t.Errorf("%s: %q and %q: %v", address, bucket, prefix, err)
		}
	}
	for _, address := range []string{"", "s3://", "s3:///folder", "/backup", "gs://bucket", "s3://bucket/../other", "s3://bucket/a//b"} {
		if _, _, err := Parse(address); err == nil || !strings.Contains(err.Error(), "give an address such as s3://bucket/folder") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestOpen(t *testing.T) {
	keys := map[string][]byte{KeyAccess: []byte("a\n"), KeySecret: []byte("s")}
	if _, err := Open("s3://bucket/folder", keys); err != nil {
		t.Error(err)
	}
	for says, secret := range map[string]map[string][]byte{
		"the Secret has to have AWS_ACCESS_KEY_ID": {KeyAccess: []byte("a")},
		"the store's endpoint":                     {KeyAccess: []byte("a"), KeySecret: []byte("s"), KeyEndpoint: []byte("s3.example.com")},
	} {
		if _, err := Open("s3://bucket", secret); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v", err)
		}
	}
}
