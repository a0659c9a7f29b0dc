// Calls ocicni, the library by which CRI-O calls CNI plugins, as CRI-O 1.37 does (server/sandbox_network.go): with no
// port mappings, since CRI-O makes host ports itself, and with CHECK after each ADD. The last pod asks for what other
// callers of ocicni may: ports, ranges, an address and a MAC address.
// Built in a checkout of github.com/cri-o/ocicni; arguments: directory of configurations, of plugins, network namespace.
package main

import (
	"context"
	"os"

	"github.com/cri-o/ocicni/pkg/ocicni"
)

const noBurst = 4294967295*8 - 1

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	cni, err := ocicni.InitCNINoInotify("", os.Args[1], os.Args[1]+"/cache", os.Args[2])
	must(err)
	must(cni.Status())
	network := cni.GetDefaultNetworkName()
	pod := func(name, id string, config ocicni.RuntimeConfig) ocicni.PodNetwork {
		config.CgroupPath = "/kubepods/besteffort/pod" + name
		return ocicni.PodNetwork{
			Name: name, Namespace: "default", UID: "9e8d0245-f00e-4f30-9172-7" + id[:11], ID: id, NetNS: os.Args[3],
			Networks:      []ocicni.NetAttachment{},
			RuntimeConfig: map[string]ocicni.RuntimeConfig{network: config},
		}
	}
	rates := map[string]string{"kubernetes.io/ingress-bandwidth": "10M", "kubernetes.io/egress-bandwidth": "8M"}
	none := map[string]string{}
	pods := []ocicni.PodNetwork{
		pod("plain", "5f1a3c9be2d84706a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718",
			ocicni.RuntimeConfig{PodAnnotations: &none}),
		pod("limited", "6e2b4d0cf3e95817b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071829",
			ocicni.RuntimeConfig{PodAnnotations: &rates, Bandwidth: &ocicni.BandwidthConfig{
				IngressRate: 10000000, IngressBurst: noBurst, EgressRate: 8000000, EgressBurst: noBurst}}),
		pod("asking", "7d3c5e1d04fa6928c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a",
			ocicni.RuntimeConfig{
				IP: "10.77.0.99", MAC: "0a:00:00:00:00:99",
				PortMappings: []ocicni.PortMapping{
					{HostPort: 18080, ContainerPort: 8080, Protocol: "tcp"},
					{HostPort: 10053, ContainerPort: 53, Protocol: "udp", HostIP: "127.0.0.1"}},
				IpRanges: [][]ocicni.IpRange{{{Subnet: "10.77.0.0/24"}}},
			}),
	}
	for _, one := range pods {
		_, err := cni.SetUpPod(one)
		must(err)
		_, err = cni.GetPodNetworkStatus(one)
		must(err)
		must(cni.GC(context.Background(), []*ocicni.PodNetwork{&one}))
		must(cni.TearDownPod(one))
	}
	// as when the pod's namespace is gone
	pods[0].NetNS = ""
	must(cni.TearDownPod(pods[0]))
	must(cni.GC(context.Background(), []*ocicni.PodNetwork{}))
	must(cni.Shutdown())
}
