// Calls go-cni, the library by which nerdctl calls CNI plugins, as nerdctl 2.3 does (pkg/ocihook/ocihook.go): a DEL
// without a namespace before each ADD and at the end, no name of a pod, a namespace that is named by a process.
// Built with github.com/containerd/go-cni; arguments: directory of configurations, of plugins.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	cni "github.com/containerd/go-cni"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	library, err := cni.New(cni.WithPluginConfDir(os.Args[1]), cni.WithPluginDir([]string{os.Args[2]}), cni.WithDefaultConf)
	must(err)
	must(library.Status())
	ignore := cni.WithLabels(map[string]string{"IgnoreUnknown": "1"})
	containers := []struct {
		id, hostname string
		asked        []cni.NamespaceOpts
	}{
		{"default-1b7e3c9be2d84706a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718", "plain", nil},
		// run -p 18080:8080 -p 127.0.0.1:10053:53/udp
		{"default-2c8f4d0cf3e95817b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071829", "ports", []cni.NamespaceOpts{
			cni.WithCapabilityPortMap([]cni.PortMapping{
				{HostPort: 18080, ContainerPort: 8080, Protocol: "tcp", HostIP: "0.0.0.0"},
				{HostPort: 10053, ContainerPort: 53, Protocol: "udp", HostIP: "127.0.0.1"}})}},
		// run --ip 10.77.0.99 --ip6 fd77::99 --mac-address 0a:00:00:00:00:99
		{"default-3d905e1d04fa6928c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a", "static", []cni.NamespaceOpts{
			ignore, cni.WithArgs("IP", "10.77.0.99"),
			ignore, cni.WithArgs("MAC", "0a:00:00:00:00:99"),
			ignore, cni.WithCapability("ips", []string{"fd77::99"})}},
	}
	for _, one := range containers {
		started := append(append([]cni.NamespaceOpts{}, one.asked...),
			ignore, cni.WithArgs("NERDCTL_CNI_DHCP_HOSTNAME", one.hostname))
		process := exec.Command("sleep", "60")
		process.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
		must(process.Start())
		_ = library.Remove(context.Background(), one.id, "", started...)
		_, err := library.Setup(context.Background(), one.id, fmt.Sprintf("/proc/%d/ns/net", process.Process.Pid), started...)
		must(err)
		must(process.Process.Kill())
		_ = process.Wait()
		must(library.Remove(context.Background(), one.id, "", one.asked...))
	}
}
