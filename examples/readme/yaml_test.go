package readme

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/redo-go/redo/server"
)

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

type (
	names map[string]string

	// deployment has the fields of a Kubernetes Deployment that docs/kubernetes.md sets.
	deployment struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   struct{ Name string }
		Spec       struct {
			Replicas int
			Selector struct {
				MatchLabels names `yaml:"matchLabels"`
			}
			Template struct {
				Metadata struct{ Labels names }
				Spec     struct {
					TerminationGracePeriodSeconds int `yaml:"terminationGracePeriodSeconds"`
					Containers                    []struct {
						Name, Image    string
						Ports          []port
						ReadinessProbe struct {
							TCPSocket struct{ Port int } `yaml:"tcpSocket"`
						} `yaml:"readinessProbe"`
						Resources struct{ Requests names }
					}
				}
			}
		}
	}
	port struct {
		ContainerPort int `yaml:"containerPort"`
	}

	// workflowStep is a step of a GitHub workflow.
	workflowStep struct {
		Uses, Run string
		With, Env names
	}
)

// strict decodes YAML whose fields are all known.
func strict(text string, into any) error {
	d := yaml.NewDecoder(strings.NewReader(text))
	d.KnownFields(true)
	return d.Decode(into)
}

func TestThePodHasTimeToStop(t *testing.T) {
	page, err := os.ReadFile("../../docs/kubernetes.md")
	require.NoError(t, err)
	var d deployment
	require.NoError(t, strict(yamlBlock.FindStringSubmatch(string(page))[1], &d))
	timeout := regexp.MustCompile(`Background\(\), (\d+)\*time\.Second`).FindStringSubmatch(string(page))
	require.NotNil(t, timeout)
	seconds, err := strconv.Atoi(timeout[1])
	require.NoError(t, err)
	pod := d.Spec.Template.Spec
	require.Greater(t, time.Duration(seconds)*time.Second, server.DefaultHandlerTimeout+server.DefaultStoreTimeout)
	const pause = 5
	require.Greater(t, pod.TerminationGracePeriodSeconds, pause+seconds)
	require.Equal(t, d.Spec.Selector.MatchLabels, d.Spec.Template.Metadata.Labels)
	require.Equal(t, 8080, pod.Containers[0].Ports[0].ContainerPort)
	require.Equal(t, 8080, pod.Containers[0].ReadinessProbe.TCPSocket.Port)
}

func TestTheOtherYAMLOfTheDocsIsStepsOfAWorkflow(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	seen := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, block := range yamlBlock.FindAllStringSubmatch(string(text), -1) {
			if strings.HasPrefix(block[1], "apiVersion:") {
				continue
			}
			seen++
			var steps []workflowStep
			require.NoError(t, strict(block[1], &steps), page)
			for _, s := range steps {
				require.NotEqual(t, s.Uses == "", s.Run == "", page)
			}
		}
	}
	require.Equal(t, 3, seen)
	require.Error(t, strict("- runs: true\n", &[]workflowStep{}))
}
