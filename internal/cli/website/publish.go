package website

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ServiceName is the name of the Service of the console, and of its EndpointSlice.
const ServiceName = "muster-console"

// Publish makes the pod at an address the only endpoint of the Service, which has no selector: only the
// leader serves. The EndpointSlice goes with the Service.
func Publish(ctx context.Context, api client.Client, at client.ObjectKey, pod string, port int) error {
	service := &corev1.Service{}
	if err := api.Get(ctx, at, service); err != nil {
		return fmt.Errorf("reading the Service %s of the console: %w", at, err)
	}
	address, err := netip.ParseAddr(pod)
	if err != nil {
		return fmt.Errorf("the address %q of this pod: %w", pod, err)
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name,
			Labels:          map[string]string{discoveryv1.LabelServiceName: at.Name, discoveryv1.LabelManagedBy: "muster.dev"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: service.Name, UID: service.UID}}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address.String()}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
		Ports:       []discoveryv1.EndpointPort{{Name: new("console"), Port: new(int32(port)), Protocol: new(corev1.ProtocolTCP)}}, //nolint:gosec // a port
	}
	if address.Is6() {
		slice.AddressType = discoveryv1.AddressTypeIPv6
	}
	there := &discoveryv1.EndpointSlice{}
	switch err := api.Get(ctx, at, there); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("reading the EndpointSlice %s: %w", at, err)
	case there.AddressType != slice.AddressType:
		return fmt.Errorf("the EndpointSlice %s has addresses of the type %s, and this pod has one of %s: remove it", at, there.AddressType, slice.AddressType)
	default:
		slice.ResourceVersion = there.ResourceVersion
		if err := api.Update(ctx, slice); err != nil {
			return fmt.Errorf("writing the EndpointSlice %s: %w", at, err)
		}
		return nil
	}
	if err := api.Create(ctx, slice); err != nil {
		return fmt.Errorf("writing the EndpointSlice %s: %w", at, err)
	}
	return nil
}
