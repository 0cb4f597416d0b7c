package door

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

const (
	// certificateLife is for how long a certificate is good; it is replaced
	// after two thirds of that.
	certificateLife = 30 * 24 * time.Hour
	renewEvery      = certificateLife * 2 / 3
	// renewAgain and beginAgain are the pauses after one could not be published.
	renewAgain, beginAgain = time.Minute, 2 * time.Second
	// clockSkew is by how much the clocks of others may be behind.
	clockSkew = 10 * time.Minute
)

// keeper makes this replica's certificate, and tells agents of it. The key is in
// memory alone.
type keeper struct {
	opts Options

	mu      sync.Mutex
	current *tls.Certificate
}

func (k *keeper) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current == nil {
		return nil, errors.New("there is no certificate yet")
	}
	return k.current, nil
}

// begin makes the first certificate, as often as it takes. It reports whether
// there is one: false once ctx has ended.
func (k *keeper) begin(ctx context.Context) bool {
	for {
		err := k.renew(ctx)
		if err == nil {
			return true
		}
		if ctx.Err() == nil {
			k.opts.Log.Warn("the door stays closed", "error", err)
		}
		timer := time.NewTimer(beginAgain)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
	}
}

// run replaces the certificate in time, until ctx ends.
func (k *keeper) run(ctx context.Context) {
	pause := renewEvery
	for {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		pause = renewEvery
		if err := k.renew(ctx); err != nil {
			k.opts.Log.Warn("the door's certificate could not be replaced", "error", err)
			pause = renewAgain
		}
	}
}

// renew makes a certificate, publishes it, and from then on uses it.
func (k *keeper) renew(ctx context.Context) error {
	made, public, err := selfSigned(k.opts.Now())
	if err != nil {
		return fmt.Errorf("making the door's certificate: %w", err)
	}
	err = retry.OnError(retry.DefaultBackoff, again, func() error { return k.publish(ctx, public) })
	if err != nil {
		return fmt.Errorf("telling agents of the door's certificate, in ConfigMap %s/%s: %w", k.opts.Namespace, v1alpha1.DoorName, err)
	}
	k.mu.Lock()
	k.current = made
	k.mu.Unlock()
	return nil
}

func again(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}

// publish adds a certificate to those of the other replicas, and takes out
// those that have ended.
func (k *keeper) publish(ctx context.Context, public string) error {
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.", r) {
			return r
		}
		return '-'
	}, k.opts.Identity)
	there := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: k.opts.Namespace, Name: v1alpha1.DoorName}}
	err := k.opts.API.Get(ctx, client.ObjectKeyFromObject(there), there)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if there.Data == nil {
		there.Data = map[string]string{}
	}
	for other, text := range there.Data {
		if ended(text, k.opts.Now()) {
			delete(there.Data, other)
		}
	}
	// The one before is still in use until this one is known.
	there.Data[name+".crt"] = public + firstOf(there.Data[name+".crt"])
	if err != nil {
		return k.opts.API.Create(ctx, there)
	}
	return k.opts.API.Update(ctx, there)
}

// firstOf is the first certificate of several.
func firstOf(text string) string {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return ""
	}
	return string(pem.EncodeToMemory(block))
}

// ended reports whether the first certificate of a text is of no use any more.
func ended(text string, now time.Time) bool {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return true
	}
	c, err := x509.ParseCertificate(block.Bytes)
	return err != nil || now.After(c.NotAfter)
}

// selfSigned makes a key and its certificate.
func selfSigned(now time.Time) (*tls.Certificate, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, "", err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: v1alpha1.DoorName}, DNSNames: []string{v1alpha1.DoorName},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(certificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, "", err
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(public), nil
}
