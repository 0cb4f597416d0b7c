package authority

import (
	"bytes"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestGiven(t *testing.T) {
	now := time.Now()
	made, err := begin(at, now)
	if err != nil {
		t.Fatal(err)
	}
	a, err := read(made, now)
	if err != nil {
		t.Fatal(err)
	}
	chain, key, err := a.Issue([]string{"s3.example.com", "127.0.0.1"}, now)
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := a.Issue([]string{"s3.example.com"}, now)
	if err != nil {
		t.Fatal(err)
	}
	place := client.ObjectKey{Namespace: "muster-system", Name: "s3-tls"}
	for name, c := range map[string]struct {
		chain, key, bundle []byte
		host               string
		after              time.Duration
		says               string
	}{
		"good":                {chain, key, nil, "s3.example.com", 0, ""},
		"an address":          {chain, key, nil, "127.0.0.1", 0, ""},
		"its own authority":   {chain, key, a.Bundle(), "s3.example.com", 0, ""},
		"for another host":    {chain, key, nil, "muster-gateway.muster-system.svc", 0, "users are told that the gateway is muster-gateway.muster-system.svc"},
		"ended":               {chain, key, nil, "s3.example.com", Life + time.Hour, "it ended at"},
		"not begun":           {chain, key, nil, "s3.example.com", -time.Hour, "it begins at"},
		"another's key":       {chain, other, nil, "s3.example.com", 0, "are no certificate and its key"},
		"nothing":             {nil, nil, nil, "s3.example.com", 0, "are no certificate and its key"},
		"no bundle after all": {chain, key, []byte("trust me"), "s3.example.com", 0, "ca.crt is no certificate"},
	} {
		s := &corev1.Secret{Data: map[string][]byte{corev1.TLSCertKey: c.chain, corev1.TLSPrivateKeyKey: c.key}}
		s.Namespace, s.Name = place.Namespace, place.Name
		if c.bundle != nil {
			s.Data["ca.crt"] = c.bundle
		}
		api := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(s).Build()
		g, err := OpenGiven(t.Context(), api, place, c.host, now.Add(c.after))
		if c.says == "" && (err != nil || !bytes.Equal(g.Chain, chain) || !bytes.Equal(g.Bundle, c.bundle)) ||
			c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "Secret muster-system/s3-tls")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := OpenGiven(t.Context(), fake.NewClientBuilder().Build(), place, "s3.example.com", now); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("without a Secret: %v", err)
	}
}
