package product

import "testing"

func TestModel(t *testing.T) {
	for product, want := range map[string]string{
		"NVIDIA A100-SXM4-80GB":                        "A100",
		"NVIDIA A100-SXM4-40GB MIG 1g.5gb":             "A100",
		"NVIDIA A100-PCIE-40GB":                        "A100",
		"NVIDIA A100 80GB PCIe":                        "A100",
		"A100-SXM4-40GB":                               "A100",
		"NVIDIA A800-SXM4-80GB":                        "A800",
		"NVIDIA H100 80GB HBM3":                        "H100",
		"NVIDIA H100 PCIe":                             "H100",
		"NVIDIA H100 NVL":                              "H100",
		"NVIDIA H200":                                  "H200",
		"NVIDIA H200 NVL":                              "H200",
		"NVIDIA H20-3e":                                "H20",
		"NVIDIA GH200 480GB":                           "GH200",
		"NVIDIA B200":                                  "B200",
		"NVIDIA GB200":                                 "GB200",
		"NVIDIA L40S":                                  "L40S",
		"NVIDIA L4":                                    "L4",
		"NVIDIA A10G":                                  "A10G",
		"Tesla V100-SXM2-16GB":                         "V100",
		"Tesla V100-PCIE-32GB":                         "V100",
		"Tesla P100-PCIE-16GB":                         "P100",
		"Tesla T4":                                     "T4",
		"Tesla K80":                                    "K80",
		"NVIDIA GeForce RTX 4090":                      "RTX4090",
		"NVIDIA GeForce RTX 4090 D":                    "RTX4090D",
		"NVIDIA GeForce RTX 3080 Ti Laptop GPU":        "RTX3080TI",
		"NVIDIA GeForce RTX 4070 SUPER":                "RTX4070SUPER",
		"GeForce GTX 1080 Ti":                          "GTX1080TI",
		"NVIDIA TITAN V":                               "TITANV",
		"TITAN Xp":                                     "TITANXP",
		"NVIDIA RTX A6000":                             "A6000",
		"NVIDIA RTX 6000 Ada Generation":               "RTX6000ADA",
		"Quadro RTX 8000":                              "RTX8000",
		"Quadro P5000":                                 "P5000",
		"NVIDIA RTX PRO 6000 Blackwell Server Edition": "RTXPRO6000",
		"NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "RTXPRO6000",
		"NVIDIA Graphics Device":                            "NVIDIAGRAPHICSDEVICE",
		"":                                                  "GPU",
	} {
		if got := Model(product); got != want {
			t.Errorf("Model(%q) = %q; want %q", product, got, want)
		}
	}
}
