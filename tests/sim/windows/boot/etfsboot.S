// BIOS boot sector of the install medium (El Torito, no emulation, 2048 bytes at 0:7C00, drive in DL).
// Asks for a key only when the first hard disk can start by itself, as Windows' etfsboot.com with bootfix.bin does;
// without a key within five seconds it starts that disk. Then hands over to the next sector of its own file, GRUB's
// cdboot, whose boot information table it fills in (genisoimage -boot-info-table fills in this one's).
	.code16
	.text
	.globl _start
	.set	HOME, 0x7c00
	.set	MBR, 0x7c00
_start:
	jmp	start
	.org	8
pvd:	.long	0
file:	.long	0
length:	.long	0
	.org	64
start:
	cli
	cld
	xorw	%ax, %ax
	movw	%ax, %ds
	movw	%ax, %es
	movw	%ax, %ss
	movw	$HOME, %sp
	sti
	movw	$HOME, %si		// out of the way of what is loaded next
	movw	$_start, %di
	movw	$1024, %cx
	rep movsw
	ljmp	$0, $moved
moved:
	movb	%dl, drive
	movw	$0x0201, %ax		// first sector of the first hard disk
	movw	$1, %cx
	movw	$0x0080, %dx
	movw	$MBR, %bx
	int	$0x13
	jc	boot_cd
	cmpw	$0xaa55, MBR + 510
	jne	boot_cd
	movw	$(MBR + 446), %si
	movw	$4, %cx
1:	testb	$0x80, (%si)
	jnz	ask
	addw	$16, %si
	loop	1b
	jmp	boot_cd
ask:
	movw	$question, %si
	call	print
	movw	$5, %di			// seconds
second:
	call	ticks
	movw	%dx, %bp
wait:
	movb	$1, %ah
	int	$0x16
	jnz	key
	call	ticks
	subw	%bp, %dx
	cmpw	$18, %dx
	jb	wait
	movw	$dot, %si
	call	print
	decw	%di
	jnz	second
	movw	$line, %si
	call	print
	movb	$0x80, %dl		// the disk's own boot record lies at 7C00 already
	ljmp	$0, $MBR
key:
	xorw	%ax, %ax
	int	$0x16
	movw	$line, %si
	call	print
boot_cd:
	movl	file, %eax
	incl	%eax
	movl	%eax, packet_lba
	movw	$packet, %si
	movb	drive, %dl
	movb	$0x42, %ah
	int	$0x13
	jc	fail
	movl	pvd, %eax
	movl	%eax, HOME + 8
	movl	packet_lba, %eax
	movl	%eax, HOME + 12
	movl	length, %eax
	subl	$2048, %eax
	movl	%eax, HOME + 16
	movb	drive, %dl
	ljmp	$0, $HOME
fail:
	movw	$unreadable, %si
	call	print
1:	hlt
	jmp	1b
ticks:
	pushw	%cx
	xorw	%ax, %ax
	int	$0x1a
	popw	%cx
	ret
print:
	lodsb
	testb	%al, %al
	jz	1f
	movb	$0x0e, %ah
	movw	$7, %bx
	int	$0x10
	jmp	print
1:	ret
packet:
	.byte	16, 0
	.word	1, HOME, 0
packet_lba:
	.long	0, 0
drive:	.byte	0
question: .asciz "Press any key to boot from CD or DVD.."
dot:	.asciz "."
line:	.asciz "\r\n"
unreadable: .asciz "CDBOOT: Couldn't read the medium\r\n"
	.org	2048
