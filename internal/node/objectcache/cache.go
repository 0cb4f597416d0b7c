package objectcache

import (
	"context"
	"fmt"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// Cache reads the objects that pods refer to. It reads from informers, and from the API
// server if the informers do not have an object yet.
type Cache struct {
	client     kubernetes.Interface
	configMaps corelisters.ConfigMapLister
	secrets    corelisters.SecretLister
	claims     corelisters.PersistentVolumeClaimLister
	volumes    corelisters.PersistentVolumeLister
	// Synced are true once the caches are filled.
	Synced []cache.InformerSynced

	byClaim cache.Indexer

	mu    sync.Mutex
	event chan struct{}
}

// New returns a cache of the objects that the factory's informers watch.
func New(client kubernetes.Interface, factory informers.SharedInformerFactory) (*Cache, error) {
	core := factory.Core().V1()
	o := &Cache{
		client:     client,
		configMaps: core.ConfigMaps().Lister(), secrets: core.Secrets().Lister(),
		claims: core.PersistentVolumeClaims().Lister(), volumes: core.PersistentVolumes().Lister(),
		event: make(chan struct{}),
	}
	o.byClaim = core.PersistentVolumes().Informer().GetIndexer()
	if err := o.byClaim.AddIndexers(cache.Indexers{claimIndex: claimUID}); err != nil {
		return nil, fmt.Errorf("indexing volumes: %w", err)
	}
	notify := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { o.notify() },
		UpdateFunc: func(any, any) { o.notify() },
		DeleteFunc: func(any) { o.notify() },
	}
	for _, informer := range []cache.SharedIndexInformer{
		core.ConfigMaps().Informer(), core.Secrets().Informer(),
		core.PersistentVolumeClaims().Informer(), core.PersistentVolumes().Informer(),
	} {
		// AddEventHandler fails only for a stopped informer.
		if _, err := informer.AddEventHandler(notify); err == nil {
			o.Synced = append(o.Synced, informer.HasSynced)
		}
	}
	return o, nil
}

// Changed returns a channel that closes when one of the objects changes.
func (o *Cache) Changed() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.event
}

func (o *Cache) notify() {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.event)
	o.event = make(chan struct{})
}

// ConfigMap reads a ConfigMap.
func (o *Cache) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	m, err := o.configMaps.ConfigMaps(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return o.client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	return m, err
}

// Secret reads a Secret.
func (o *Cache) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	s, err := o.secrets.Secrets(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return o.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	return s, err
}

// Claim reads a claim and its volume. It does not read a claim again that is unbound in
// the informer: the watch shows the binding, and reads by many waiting pods at every
// change would overload the API server.
func (o *Cache) Claim(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume, error) {
	claim, err := o.claims.PersistentVolumeClaims(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		claim, err = o.client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		return nil, nil, err
	}
	if claim.Spec.VolumeName == "" {
		return claim, o.promised(claim), nil
	}
	volume, err := o.volumes.Get(claim.Spec.VolumeName)
	if apierrors.IsNotFound(err) {
		volume, err = o.client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	}
	return claim, volume, err
}

// promised returns the volume whose claimRef is this claim; nil without one. No other
// claim can get that volume, so Claim does not wait for the binder's write to the claim.
func (o *Cache) promised(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	found, err := o.byClaim.ByIndex(claimIndex, string(claim.UID))
	if err != nil || len(found) != 1 {
		return nil
	}
	volume, _ := found[0].(*corev1.PersistentVolume)
	return volume
}

// claimIndex indexes volumes by the UID of their claim.
const claimIndex = "claim"

func claimUID(object any) ([]string, error) {
	volume, ok := object.(*corev1.PersistentVolume)
	if !ok || volume.Spec.ClaimRef == nil || volume.Spec.ClaimRef.UID == "" {
		return nil, nil
	}
	return []string{string(volume.Spec.ClaimRef.UID)}, nil
}

// Token requests a token that is valid while the pod exists.
func (o *Cache) Token(ctx context.Context, pod *corev1.Pod, audience string, seconds int64) (string, time.Time, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if audience != "" {
		request.Spec.Audiences = []string{audience}
	}
	account := pod.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	answer, err := o.client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", time.Time{}, err
	}
	return answer.Status.Token, answer.Status.ExpirationTimestamp.Time, nil
}
