module github.com/redo-go/redo/server/framework/echov5

go 1.26.0

// Until the first release: the adapter and the middleware move together.
replace github.com/redo-go/redo => ../../../

require (
	github.com/labstack/echo/v5 v5.3.1
	github.com/redo-go/redo v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/go-json-experiment/json v1.27.2 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/time v0.16.0 // indirect
)
