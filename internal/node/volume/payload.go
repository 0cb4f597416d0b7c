package volume

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/internal/node/expansion"
	"github.com/muster-dev/muster/internal/node/userfiles"
)

// defaultMode is the mode of files where nothing else is said.
const defaultMode = int32(0o644)

func orMode(first, second *int32) int32 {
	switch {
	case first != nil:
		return *first
	case second != nil:
		return *second
	}
	return defaultMode
}

// payload collects the files of a ConfigMap, Secret, downward or projected
// volume, by their path.
func (m *Manager) payload(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (userfiles.Payload, error) {
	p := &collector{manager: m, ctx: ctx, pod: pod, volume: v.Name, files: userfiles.Payload{}}
	var err error
	switch {
	case v.ConfigMap != nil:
		s := v.ConfigMap
		err = p.configMap(s.Name, s.Items, s.DefaultMode, s.Optional)
	case v.Secret != nil:
		s := v.Secret
		err = p.secret(s.SecretName, s.Items, s.DefaultMode, s.Optional)
	case v.DownwardAPI != nil:
		err = p.downward(v.DownwardAPI.Items, v.DownwardAPI.DefaultMode)
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			if err = p.projection(&v.Projected.Sources[i], v.Projected.DefaultMode); err != nil {
				break
			}
		}
	default:
		err = fmt.Errorf("this kind of volume is not implemented by this node")
	}
	return p.files, err
}

// collector gathers a payload.
type collector struct {
	manager *Manager
	ctx     context.Context
	pod     *corev1.Pod
	volume  string
	files   userfiles.Payload
}

// put adds a file, if its path stays inside the volume.
func (p *collector) put(name string, data []byte, mode int32) error {
	clean := path.Clean(name)
	if path.IsAbs(clean) || clean == "." || strings.HasPrefix(clean, "..") {
		return fmt.Errorf("the path %q leaves the volume", name)
	}
	p.files[clean] = userfiles.PayloadFile{Data: data, Mode: mode}
	return nil
}

func (p *collector) projection(s *corev1.VolumeProjection, mode *int32) error {
	switch {
	case s.ConfigMap != nil:
		return p.configMap(s.ConfigMap.Name, s.ConfigMap.Items, mode, s.ConfigMap.Optional)
	case s.Secret != nil:
		return p.secret(s.Secret.Name, s.Secret.Items, mode, s.Secret.Optional)
	case s.DownwardAPI != nil:
		return p.downward(s.DownwardAPI.Items, mode)
	case s.ServiceAccountToken != nil:
		return p.token(s.ServiceAccountToken, mode)
	}
	return fmt.Errorf("this kind of projection is not implemented by this node")
}

func (p *collector) configMap(name string, items []corev1.KeyToPath, mode *int32, optional *bool) error {
	m, err := p.manager.config.Objects.ConfigMap(p.ctx, p.pod.Namespace, name)
	if apierrors.IsNotFound(err) && isTrue(optional) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading ConfigMap %q: %w", name, err)
	}
	data := map[string][]byte{}
	for key, value := range m.Data {
		data[key] = []byte(value)
	}
	for key, value := range m.BinaryData {
		data[key] = value
	}
	return p.keys(fmt.Sprintf("ConfigMap %q", name), data, items, mode, isTrue(optional))
}

func (p *collector) secret(name string, items []corev1.KeyToPath, mode *int32, optional *bool) error {
	s, err := p.manager.config.Objects.Secret(p.ctx, p.pod.Namespace, name)
	if apierrors.IsNotFound(err) && isTrue(optional) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading Secret %q: %w", name, err)
	}
	return p.keys(fmt.Sprintf("Secret %q", name), s.Data, items, mode, isTrue(optional))
}

func isTrue(b *bool) bool { return b != nil && *b }

// keys adds all keys, or the listed ones.
func (p *collector) keys(from string, data map[string][]byte, items []corev1.KeyToPath, mode *int32, optional bool) error {
	if len(items) == 0 {
		for key, value := range data {
			if err := p.put(key, value, orMode(mode, nil)); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range items {
		value, ok := data[items[i].Key]
		if !ok && optional {
			continue
		}
		if !ok {
			return fmt.Errorf("the %s has no key %q", from, items[i].Key)
		}
		if err := p.put(items[i].Path, value, orMode(items[i].Mode, mode)); err != nil {
			return err
		}
	}
	return nil
}

func (p *collector) downward(items []corev1.DownwardAPIVolumeFile, mode *int32) error {
	for i := range items {
		item := &items[i]
		var value string
		var err error
		switch {
		case item.FieldRef != nil:
			value, err = expansion.Field(p.pod, item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			value, err = expansion.Resource(p.pod, nil, item.ResourceFieldRef, p.manager.config.Allocatable)
		}
		if err != nil {
			return err
		}
		if err := p.put(item.Path, []byte(value), orMode(item.Mode, mode)); err != nil {
			return err
		}
	}
	return nil
}

// tokenKey says which token of a pod is meant.
type tokenKey struct {
	pod      types.UID
	volume   string
	path     string
	audience string
}

// heldToken is a token and when to ask for another.
type heldToken struct {
	token   string
	renewAt time.Time
}

// defaultTokenSeconds is a token's life where nothing else is asked for.
const defaultTokenSeconds = int64(3600)

// token adds a service account token. It is renewed when four fifths of its
// life are over, and after a day at the latest.
func (p *collector) token(s *corev1.ServiceAccountTokenProjection, mode *int32) error {
	key := tokenKey{pod: p.pod.UID, volume: p.volume, path: s.Path, audience: s.Audience}
	now := p.manager.config.Now()
	p.manager.mu.Lock()
	held, ok := p.manager.tokens[key]
	p.manager.mu.Unlock()
	if !ok || !now.Before(held.renewAt) {
		seconds := defaultTokenSeconds
		if s.ExpirationSeconds != nil {
			seconds = *s.ExpirationSeconds
		}
		token, expires, err := p.manager.config.Objects.Token(p.ctx, p.pod, s.Audience, seconds)
		if err != nil {
			return fmt.Errorf("asking for a token of service account %q: %w", p.pod.Spec.ServiceAccountName, err)
		}
		held = heldToken{token: token, renewAt: now.Add(min(expires.Sub(now)*4/5, 24*time.Hour))}
		p.manager.mu.Lock()
		p.manager.tokens[key] = held
		p.manager.mu.Unlock()
	}
	// The token is the pod's own; other users of the machine must not read
	// it, unless the pod runs as one of them.
	if mode == nil && p.pod.Spec.SecurityContext == nil {
		private := int32(0o600)
		mode = &private
	}
	return p.put(s.Path, []byte(held.token), orMode(mode, nil))
}
