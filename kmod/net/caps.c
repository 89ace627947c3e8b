// SPDX-License-Identifier: GPL-2.0
/*
 * caps.c - can a rank use a device? JOIN refuses a device that cannot do what conn.c and key.c do,
 * and the log names what it lacks: later, it would fail in the middle of a fault, or lose blocks.
 */
#include <linux/dma-mapping.h>
#include <linux/iommu.h>
#include <linux/mm.h>
#include <linux/pci.h>
#include <linux/platform_device.h>

#include "conn.h"
#include "../base/ctx.h"
#include "../base/test.h"

static unsigned int service_level;
module_param(service_level, uint, 0600);
MODULE_PARM_DESC(service_level,
		 "InfiniBand service level, or RoCE priority, of all connections (0 to 15)");

enum {
	TEST_LACKS_FRWR = 1,
	TEST_LACKS_PAGES,
	TEST_LACKS_SYNC,
	TEST_LACKS_PARTITION,
	TEST_LACKS_IMM
};
TEST_PARAM(
	uint, test_lacks, 0,
	"as with a device without: 1 fast registration; 2 512 pages per key; 3 direct writes to memory; 4 a partition; 5 writes with immediate data");
TEST_PARAM(uint, test_dma_bits, 0,
	   "as with a device that is not software, and has addresses of so many bits");

#define PKEY_DEFAULT 0xffffu
#define PKEY_FULL 0x8000u

u8 caps_service_level(void)
{
	return (u8)min(READ_ONCE(service_level), 15u);
}

/*
 * Are writes of the device to memory staged in other memory (swiotlb)? The module reads a block as
 * soon as the device has reported it, and copies nothing. Behind an IOMMU a device reaches all
 * memory, and only parts of pages are staged, for untrusted devices; dma_need_sync() says nothing
 * there. Without one, frames above the last address of the device are staged, wherever the page
 * that is tried lies.
 */
static int caps_probe_dma(struct device *dev, bool *staged)
{
	const struct iommu_domain *domain = iommu_get_domain_for_dev(dev);
	struct page *page;
	dma_addr_t dma;
	int err = 0;

	if (domain && domain->type & __IOMMU_DOMAIN_PAGING) {
		*staged = dev_is_pci(dev) && to_pci_dev(dev)->untrusted;
		return 0;
	}
	*staged = dma_addressing_limited(dev);
	if (*staged)
		return 0;
	page = alloc_page(GFP_CTX);
	if (!page)
		return -ENOMEM;
	dma = dma_map_page(dev, page, 0, PAGE_SIZE, DMA_BIDIRECTIONAL);
	if (dma_mapping_error(dev, dma)) {
		err = -ENOMEM;
	} else {
		*staged = dma_need_sync(dev, dma);
		dma_unmap_page(dev, dma, PAGE_SIZE, DMA_BIDIRECTIONAL);
	}
	__free_page(page);
	return err;
}

/* A device without a driver, for tests: rxe, which writes by the processor, has no addresses. */
static int caps_probe_test(unsigned int bits, bool *staged)
{
	struct platform_device *dev =
		platform_device_register_simple("dsm_dma", PLATFORM_DEVID_NONE, NULL, 0);
	int err = PTR_ERR_OR_ZERO(dev);

	if (err)
		return err;
	err = dma_coerce_mask_and_coherent(&dev->dev, DMA_BIT_MASK(bits));
	if (!err)
		err = caps_probe_dma(&dev->dev, staged);
	platform_device_unregister(dev);
	return err;
}

static int caps_is_staged(struct ib_device *dev, bool *staged)
{
	const unsigned int lacks = test_value(test_lacks), bits = test_value(test_dma_bits);

	*staged = lacks == TEST_LACKS_SYNC;
	if (bits)
		return caps_probe_test(bits, staged);
	return ib_uses_virt_dma(dev) ? 0 : caps_probe_dma(dev->dma_device, staged);
}

/* NULL: nothing is lacking. */
static const char *caps_lacking(struct ib_device *dev, u32 port, bool staged)
{
	const struct ib_device_attr *a = &dev->attrs;
	const unsigned int lacks = test_value(test_lacks);

	if (!rdma_ib_or_roce(dev, port) || lacks == TEST_LACKS_IMM)
		return "writes with immediate data, and connections that its port's protocol (iWARP, usNIC) has only with others; use InfiniBand or RoCE";
	if (!(a->device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS) || lacks == TEST_LACKS_FRWR)
		return "memory registration by work requests (IB_DEVICE_MEM_MGT_EXTENSIONS)";
	if (a->max_fast_reg_page_list_len < CHUNK_PAGES || lacks == TEST_LACKS_PAGES)
		return "keys of 512 pages (max_fast_reg_page_list_len)";
	if (staged)
		return "direct access to all memory: its writes are staged (swiotlb); use an IOMMU, and boot without swiotlb=force";
	return NULL;
}

/*
 * The default partition if the port is a full member of it, else the first of which it is. Limited
 * members cannot talk to each other.
 */
static int caps_choose_pkey(struct ib_device *dev, u32 port, u16 *index)
{
	struct ib_port_attr attr;
	const unsigned int lacks = test_value(test_lacks);
	int err = ib_query_port(dev, port, &attr), i, found = -1;
	u16 pkey;

	if (err)
		return err;
	for (i = 0; i < attr.pkey_tbl_len && lacks != TEST_LACKS_PARTITION; i++) {
		if (ib_query_pkey(dev, port, (u16)i, &pkey) || !(pkey & PKEY_FULL) ||
		    (found >= 0 && pkey != PKEY_DEFAULT))
			continue;
		found = i;
		if (pkey == PKEY_DEFAULT)
			break;
	}
	if (found < 0)
		return -EACCES;
	*index = (u16)found;
	return 0;
}

int caps_check(struct ib_device *dev, u32 port, u16 *pkey)
{
	const char *lacking;
	bool staged;
	int err = caps_is_staged(dev, &staged);

	if (err)
		return err;
	lacking = caps_lacking(dev, port, staged);
	if (lacking) {
		pr_info_ratelimited("dsm: %s cannot be used: it lacks %s\n", dev_name(&dev->dev),
				    lacking);
		return -EOPNOTSUPP;
	}
	err = caps_choose_pkey(dev, port, pkey);
	if (err == -EACCES)
		pr_info_ratelimited(
			"dsm: %s cannot be used: port %u is a full member of no partition (pkeys)\n",
			dev_name(&dev->dev), port);
	return err;
}
